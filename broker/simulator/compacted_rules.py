"""What compaction must keep, as rules over a history; see `checker`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from broker.simulator.history import INVOKE, OK, Event
from broker.simulator.keeping import DELETE_RETENTION_MS

State = dict[str, tuple[int, str | None]]
"""Key → (offset, value) of its last entry; None for a deletion that is still there."""


def newest_of_every_key_is_kept(events: Sequence[Event]) -> Iterator[str]:
    """Whoever reads from the beginning in the end finds, of every key, what was acknowledged last,
    or something newer; a deleted key has no older value. A deletion whose fate nobody knows may
    have happened.
    """
    final = _final_state(events)
    if final is None:
        return
    entries = {entry[0]: entry[2:] for entry in _final_entries(events)}
    newest: State = {}
    for put, offset in _acknowledged(events):
        key, value = put["key"], put["value"]
        if offset in entries and tuple(entries[offset]) != (key, value):
            yield f"{key}={value} acknowledged at {offset}, has {entries[offset]}"
        if offset >= newest.get(key, (-1, None))[0]:
            newest[key] = offset, value
    maybe_deleted = _maybe_deleted(events)
    for key, (offset, value) in newest.items():
        found = final.get(key)
        if found is None and value is not None and key not in maybe_deleted:
            yield f"{key}={value} acknowledged at {offset} is gone"
        elif found is not None and found[0] < offset:
            yield f"{key}={value} acknowledged at {offset}, the last one there is {found}"


def deletions_are_seen(events: Sequence[Event]) -> Iterator[str]:
    """A follower that was never behind for as long as tombstones are kept ends up knowing what the
    log says. A clock that jumps ends the promise for whoever is behind then.
    """
    final = _final_state(events)
    if final is None:
        return
    runs: dict[str, _Follower] = defaultdict(_Follower)
    clock_s = -1.0
    for event in events:
        if event["operation"] == "clock":
            clock_s = event["time"]
        elif event["operation"] == "follow":
            runs[event["reader"]].take(event, clock_s)
    end = max((offset for offset, _ in final.values()), default=-1) + 1
    wanted = _values(final)
    for reader, run in runs.items():
        if run.is_lapsed or run.position < end:
            continue
        known = _values(run.state)
        for key in sorted(known.keys() | wanted.keys()):
            if known.get(key) != wanted.get(key):
                yield f"{reader} knows {key}={known.get(key)}, the log says {wanted.get(key)}"


def offsets_by_time_are_exact(events: Sequence[Event]) -> Iterator[str]:
    """The offset for a time is the first record's of that time or a later one."""
    for event in events:
        if event["operation"] != "keys":
            continue
        for time_ms, found in event["lookups"]:
            later = [entry[0] for entry in event["entries"] if entry[1] >= time_ms]
            wanted = min(later, default=-1)
            if found != wanted:
                yield f"the offset for time {time_ms} is {wanted}, the answer was {found}"


class _Follower:
    """What one follower knows. `is_lapsed`: it may have missed a deletion, rightly."""

    def __init__(self) -> None:
        self.state: State = {}
        self.position = 0
        self.is_lapsed = False
        self._since_s: float | None = None
        """It knew everything then, up to `_known_end`."""
        self._known_end = 0

    def take(self, event: Event, clock_s: float) -> None:
        if self._since_s is None:
            self._since_s = event["asked_s"]
        is_late = (event["time"] - self._since_s) * 1000 >= DELETE_RETENTION_MS
        is_more = event["high_watermark"] != self._known_end
        self.is_lapsed |= is_more and (is_late or clock_s >= self._since_s)
        for offset, _, key, value in event["entries"]:
            self.state[key] = offset, value
        self.position = event["next_position"]
        if self.position >= event["high_watermark"]:
            self._since_s, self._known_end = event["asked_s"], event["high_watermark"]


def _acknowledged(events: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """(put, its offset)."""
    asked: dict[int, Event] = {}
    for event in events:
        if event["operation"] == "put" and event["kind"] == INVOKE:
            asked[event["id"]] = event
        elif event["operation"] == "put" and event["kind"] == OK and event["id"] in asked:
            yield asked[event["id"]], event["offset"]


def _maybe_deleted(events: Sequence[Event]) -> set[str]:
    """Keys with a deletion that nobody answered."""
    puts = [event for event in events if event["operation"] == "put"]
    answered = {event["id"] for event in puts if event["kind"] != INVOKE}
    return {
        event["key"]
        for event in puts
        if event["kind"] == INVOKE and event["value"] is None and event["id"] not in answered
    }


def _final_entries(events: Sequence[Event]) -> list[Any]:
    return next((e["entries"] for e in reversed(events) if e["operation"] == "keys"), [])


def _final_state(events: Sequence[Event]) -> State | None:
    """None when the topic was not read in the end."""
    if not any(event["operation"] == "keys" for event in events):
        return None
    return {key: (offset, value) for offset, _, key, value in _final_entries(events)}


def _values(state: State) -> dict[str, str]:
    return {key: value for key, (_, value) in state.items() if value is not None}
