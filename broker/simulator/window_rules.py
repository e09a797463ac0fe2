"""The judge of the delivery window: pure rules over what watchers saw of a topic that has one.

Wall times are milliseconds since the run's start, of the broker's own clock: the history says when
it was moved. A record is due, or expired, when that clock says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker.simulator.history import INVOKE, OK, Event

ROUNDING_MS: Final = 2
"""Times of the history and stamps of the broker are rounded apart."""


def not_before_its_time(events: Sequence[Event]) -> Iterator[str]:
    """No record is read before the clock once showed its stamp and the delay."""
    for event, wall in _watched(events):
        for offset, stamp in _stamped(event):
            due_ms = stamp + wall.delay_ms
            if due_ms > wall.latest_ms + ROUNDING_MS:
                yield (
                    f"{event['reader']}: offset {offset}, due at {due_ms}, is read when the "
                    f"clock has shown {wall.latest_ms} at most"
                )


def not_after_its_end(events: Sequence[Event]) -> Iterator[str]:
    """No record is read that was expired, and all before it, when it was asked for.

    What a reader is shown has no holes: while the clock has not come back to where it once was,
    what was stamped then is young, and keeps what follows it.
    """
    latest_ms = _latest_up_to(_stamps(events))
    for event, wall in _watched(events):
        asked_ms = int(event["asked_s"] * 1000) + wall.skew_ms
        if wall.ttl_ms < 0 or event["asked_s"] <= wall.changed_s:
            continue
        for offset, stamp in _stamped(event):
            if asked_ms - latest_ms[event["topic"], offset] >= wall.ttl_ms + ROUNDING_MS:
                yield (
                    f"{event['reader']}: offset {offset} of {stamp} is read though it was asked "
                    f"for at {asked_ms}, behind its {wall.ttl_ms} ms"
                )


def only_what_is_expired_is_passed(events: Sequence[Event]) -> Iterator[str]:
    """A watcher gets every record from its position on, in order, but for expired ones."""
    stamps = _stamps(events)
    expected: dict[str, int] = {}
    for event, wall in _watched(events):
        position = expected.get(event["reader"], event["position"])
        if event["position"] != position:
            yield f"{event['reader']}: reads at {event['position']}, {position} comes next"
        position = event["position"]
        for offset, _value in event["records"]:
            if offset < position:
                yield f"{event['reader']}: got offset {offset} where {position} comes next"
            for passed in range(position, offset):
                stamp = stamps.get((event["topic"], passed), 0)
                if (
                    wall.first_ttl_ms < 0
                    or wall.latest_ms - stamp < wall.first_ttl_ms - ROUNDING_MS
                ):
                    yield f"{event['reader']}: offset {passed} of {stamp} was passed over"
            position = offset + 1
        expected[event["reader"]] = position


def visible_end_never_moves_back(events: Sequence[Event]) -> Iterator[str]:
    """While the broker runs, no watcher sees the visible end go down, or a record above it."""
    seen: dict[tuple[str, int], int] = {}
    for event, _wall in _watched(events):
        end = event["visible_end"]
        above = [offset for offset, _value in event["records"] if offset >= end]
        if above:
            yield f"{event['reader']}: offset {above[0]} is read at visible end {end}"
        if event["incarnation"] is None:
            continue
        key = (event["reader"].partition("@")[0], event["incarnation"])
        if end < seen.get(key, 0):
            yield f"{key}: visible end {end} after {seen[key]}"
        seen[key] = max(end, seen.get(key, 0))


class _Wall:
    """What the broker's clock has shown so far, and the window in force."""

    def __init__(self) -> None:
        self.skew_ms = self.latest_ms = 0
        self.changed_s = -1.0
        self.delay_ms = 0
        self.ttl_ms = self.first_ttl_ms = -1

    def follow(self, event: Event) -> None:
        """The clock went on until `event`, which may have moved it."""
        self.latest_ms = max(self.latest_ms, int(event["time"] * 1000) + self.skew_ms)
        if event["operation"] == "clock":
            self.skew_ms = event["skew_ms"]
            self.changed_s = event["time"]
            self.latest_ms = max(self.latest_ms, int(event["time"] * 1000) + self.skew_ms)
        elif event["operation"] == "window":
            if not self.delay_ms:
                self.first_ttl_ms = event["ttl_ms"]
            self.delay_ms, self.ttl_ms = event["delay_ms"], event["ttl_ms"]


def _watched(events: Sequence[Event]) -> Iterator[tuple[Event, _Wall]]:
    wall = _Wall()
    for event in events:
        wall.follow(event)
        if event["operation"] == "watch" and event["kind"] != INVOKE:
            yield event, wall


def _stamps(events: Sequence[Event]) -> dict[tuple[str, int], int]:
    """By topic and offset, of all that was read."""
    return {
        (event["topic"], offset): stamp
        for event in events
        if event["operation"] in {"watch", "final"} and event["kind"] == OK
        for offset, stamp in _stamped(event)
    }


def _latest_up_to(stamps: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """By topic and offset, the latest stamp that stands there or before."""
    found: dict[tuple[str, int], int] = {}
    highest: dict[str, int] = {}
    for (topic, offset), stamp in sorted(stamps.items()):
        highest[topic] = max(stamp, highest.get(topic, stamp))
        found[topic, offset] = highest[topic]
    return found


def _stamped(event: Event) -> Iterator[tuple[int, int]]:
    """(offset, stamp) of its records."""
    stamps = event.get("stamps") or []
    for (offset, _value), stamp in zip(event["records"], stamps, strict=False):
        yield offset, stamp
