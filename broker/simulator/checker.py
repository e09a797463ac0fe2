"""The judge: pure rules over a history. Each rule returns findings; an empty list is a clean run.

Rules run only on what clients saw, so they hold for any broker that speaks the protocol. A new
rule is a row of `RULES` and a history in the tests that breaks it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from broker.model import INT64_MAX
from broker.simulator.compacted_rules import (
    deletions_are_seen,
    newest_of_every_key_is_kept,
    offsets_by_time_are_exact,
)
from broker.simulator.history import FAIL, INFO, INVOKE, OK, Event
from broker.simulator.window_rules import (
    not_after_its_end,
    not_before_its_time,
    only_what_is_expired_is_passed,
    visible_end_never_moves_back,
)


class Finding(NamedTuple):
    """A broken promise: the rule's name and one sentence with the evidence."""

    rule: str
    evidence: str


class Send(NamedTuple):
    """A send and its outcome. `offset` is set when it was acknowledged."""

    event: Event
    kind: str
    offset: int | None


Place = tuple[str, int]
"""Topic (with its incarnation) and partition."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
FINDINGS_PER_RULE_MAX: Final = 5


def check(events: Sequence[Event]) -> list[Finding]:
    """Every finding, a few per rule."""
    events = since_power_cut(events)
    findings: list[Finding] = []
    for name, rule in RULES.items():
        for count, evidence in enumerate(rule(events)):
            if count == FINDINGS_PER_RULE_MAX:
                break
            findings.append(Finding(name, evidence))
    return findings


def since_power_cut(events: Sequence[Event]) -> Sequence[Event]:
    """The history that binds the broker. Topics with `durability=fsync` lose nothing by a power
    cut. Of others it may take any unsynced tail back: what was seen and acknowledged before counts
    no more, but what was sent may be there.
    """
    cuts = [index for index, event in enumerate(events) if event["operation"] == "power cut"]
    if not cuts:
        return events
    before, after = events[: cuts[-1]], events[cuts[-1] + 1 :]
    durable = {event["topic"] for event in events if event["operation"] == "durable"}
    topics: dict[int, str] = {}
    bound: list[Event] = []
    for event in before:
        if event["operation"] in _OF_OFFSETS:
            topic = OFFSETS_TOPIC
        else:
            topic = event.get("topic") or topics.get(event["id"], "")
            topics[event["id"]] = topic
        if topic in durable or _binds_anyway(event):
            bound.append(event)
    return [*bound, *after]


_OF_OFFSETS: Final = frozenset({"commit", "committed", "reset"})
"""Operations whose effect is in the offsets topic, whatever topic they name."""


def _binds_anyway(event: Event) -> bool:
    if event["operation"] in {"trim", "window", "clock"}:  # synced when acknowledged; no data
        return True
    return event["kind"] == INVOKE and event["operation"] in {"send", "commit"}


def one_value_per_offset(events: Sequence[Event]) -> Iterator[str]:
    """Every observer, acknowledgements included, agrees on the value at an offset."""
    seen: dict[tuple[Place, int], tuple[Any, str]] = {}
    for place, offset, value, witness in _observations(events):
        known, first_witness = seen.setdefault((place, offset), (value, witness))
        if known != value:
            yield f"{place} offset {offset}: {first_witness} has {known}, {witness} has {value}"


def acknowledged_is_kept(events: Sequence[Event]) -> Iterator[str]:
    """What was acknowledged is there in the end, where it was acknowledged, or below the log start
    of a topic whose retention says so or whose records were to be deleted.
    """
    final = {place: dict(records) for place, records in _final_records(events).items()}
    trimmed = {_place(event) for event in events if _is_asked(event, "trim")}
    expired = {
        _place(event): event["start"]
        for event in _completed(events, "final")
        if event.get("may_expire") or _place(event) in trimmed
    }
    for send in _sends(events):
        place = _place(send.event)
        if place in expired and (send.offset is None or send.offset < expired[place]):
            continue
        if send.kind == OK and place in final:
            if send.offset is None:
                if send.event["value"] not in final[place].values():
                    yield f"{place}: {send.event['value']} was acknowledged and is nowhere"
                continue
            found = final[place].get(send.offset)
            if found != send.event["value"]:
                yield f"{place}: {send.event['value']} acknowledged at {send.offset}, has {found}"


def seen_is_kept(events: Sequence[Event]) -> Iterator[str]:
    """What a reader was shown, records and the watermark above them, is there in the end, or below
    the log start.
    """
    finals = {
        _place(event): (event["start"], event["end"]) for event in _completed(events, "final")
    }
    for event in _completed(events, "poll"):
        place = _place(event)
        if place not in finals:
            continue
        start, end = finals[place]
        shown = max(event["high_watermark"] or 0, *(each[0] + 1 for each in event["records"]), 0)
        if shown > max(start, end):
            yield f"{place}: {event['reader']} was shown up to {shown}, in the end there is {end}"


def nothing_phantom(events: Sequence[Event]) -> Iterator[str]:
    """What is read was sent to that place, and its send did not fail."""
    sent: dict[tuple[Place, Any], str] = {
        (_place(send.event), send.event["value"]): send.kind for send in _sends(events)
    }
    for place, offset, value, witness in _observations(events):
        outcome = sent.get((place, value))
        if outcome is None:
            yield f"{place} offset {offset}: {witness} has {value}, which was never sent there"
        elif outcome == FAIL:
            yield f"{place} offset {offset}: {witness} has {value}, whose send failed"


def order_of_a_producer(events: Sequence[Event]) -> Iterator[str]:
    """The records of one idempotent producer stand in a partition in the order of their sends."""
    sends = {(_place(send.event), send.event["value"]): send.event for send in _sends(events)}
    for place, records in _final_records(events).items():
        last: dict[str, tuple[int, int]] = {}
        for offset, value in records:
            send = sends.get((place, value))
            if send is None or not send["is_idempotent"]:
                continue
            before = last.get(send["producer"], (-1, -1))
            if send["sequence"] < before[0]:
                yield f"{place}: {value} at {offset} stands behind its successor at {before[1]}"
            last[send["producer"]] = (send["sequence"], offset)


def no_duplicate_of_an_idempotent_producer(events: Sequence[Event]) -> Iterator[str]:
    """A record of an idempotent producer is in the log at most once."""
    idempotent = {
        (_place(send.event), send.event["value"])
        for send in _sends(events)
        if send.event["is_idempotent"]
    }
    for place, records in _final_records(events).items():
        offsets: dict[Any, int] = {}
        for offset, value in records:
            if (place, value) not in idempotent:
                continue
            if value in offsets:
                yield f"{place}: {value} stands at {offsets[value]} and again at {offset}"
            offsets[value] = offset


def no_skip_between_polls(events: Sequence[Event]) -> Iterator[str]:
    """A reader gets every offset from its position on, once."""
    expected: dict[tuple[str, Place], int] = {}
    for event in _completed(events, "poll"):
        key = (event["reader"], _place(event))
        position = expected.get(key, event["position"])
        if event["position"] != position:
            yield f"{key}: polls at {event['position']}, its last poll ended at {position}"
        position = event["position"]
        for offset, value in event["records"]:
            if offset != position:
                yield f"{key}: got offset {offset} ({value}) where {position} comes next"
            position = offset + 1
        expected[key] = position


def final_log_is_whole(events: Sequence[Event]) -> Iterator[str]:
    """In the end every offset from the log start to the log end has one record."""
    for event in _completed(events, "final"):
        offsets = [offset for offset, _value in event["records"]]
        if offsets != list(range(event["start"], event["end"])):
            yield f"{_place(event)}: [{event['start']}, {event['end']}) has {_gaps(offsets)}"


def committed_offset_never_moves_back(events: Sequence[Event]) -> Iterator[str]:
    """A committed offset that is read is not below one that was acknowledged before the question,
    and somebody committed it. A commit whose fate is open may take effect late: then it may be
    read.
    """
    register: dict[tuple[str, Place], _Register] = defaultdict(_Register)
    asked: dict[int, tuple[Event, int]] = {}
    for event in events:
        if event["operation"] == "reset":
            register[event["group"], _place(event)].acknowledged = -1
        if event["operation"] not in {"commit", "committed"}:
            continue
        if event["kind"] == INVOKE:
            state = register[event["group"], _place(event)]
            asked[event["id"]] = (event, state.acknowledged)
            if event["operation"] == "commit":
                state.open[event["id"]] = event["offset"]
                state.committed.add(event["offset"])
            continue
        question, before = asked[event["id"]]
        key = (question["group"], _place(question))
        state = register[key]
        if event["operation"] == "commit":
            state.end(event["id"], question["offset"], event["kind"])
        elif event["kind"] == OK:
            found = max(event["offset"], 0)  # without a commit, a reader begins at the start
            if found < before and found not in state.open.values():
                yield f"{key}: committed offset {found} is read after {before} was acknowledged"
            elif found > 0 and found not in state.committed:
                yield f"{key}: committed offset {found} is read, nobody committed it"


def start_moves_where_asked(events: Sequence[Event]) -> Iterator[str]:
    """The log start is where an acknowledged deletion put it, or beyond, and never beyond what was
    asked for; retention apart.
    """
    asked: dict[Place, int] = defaultdict(int)
    least: dict[Place, int] = defaultdict(int)
    questions: dict[int, tuple[int, int]] = {}
    for event in events:
        if _is_asked(event, "trim"):
            offset = event["offset"]
            questions[event["id"]] = (offset, least[_place(event)])
            limit = offset if offset >= 0 else INT64_MAX
            asked[_place(event)] = max(asked[_place(event)], limit)
        elif event["operation"] == "trim" and event["kind"] == OK:
            place, start = _place(event), event["start"]
            offset, before = questions[event["id"]]
            if start < max(offset, before):
                yield f"{place}: deleting up to {offset} after {before} was gone left {start}"
            least[place] = max(least[place], start)
    for event in _completed(events, "final"):
        place, start = _place(event), event["start"]
        if start < least[place]:
            yield f"{place}: starts at {start}, what is below {least[place]} was deleted"
        if start > asked[place] and not event.get("may_expire"):
            yield f"{place}: starts at {start}, asked was for {asked[place]} at most"


class _Register:
    """One group's offset of one partition: what was acknowledged, and what may still happen."""

    def __init__(self) -> None:
        self.acknowledged = -1
        self.open: dict[int, int] = {}
        self.committed: set[int] = set()

    def end(self, identity: int, offset: int, kind: str) -> None:
        if kind == OK:
            self.acknowledged = max(self.acknowledged, offset)
        if kind != INFO:
            self.open.pop(identity, None)


def watermark_never_moves_back(events: Sequence[Event]) -> Iterator[str]:
    """No client sees the high watermark of a partition go down, or a record above it."""
    seen: dict[tuple[str, Place], int] = {}
    for event in _completed(events, "poll"):
        watermark = event["high_watermark"]
        if watermark is None:
            continue
        key = (event["reader"].partition("@")[0], _place(event))
        if watermark < seen.get(key, 0):
            yield f"{key}: high watermark {watermark} after {seen[key]}"
        seen[key] = max(watermark, seen.get(key, 0))
        above = [offset for offset, _value in event["records"] if offset >= watermark]
        if above:
            yield f"{key}: offset {above[0]} is read at high watermark {watermark}"


RULES: Final[dict[str, Callable[[Sequence[Event]], Iterable[str]]]] = {
    "one value per offset": one_value_per_offset,
    "acknowledged is kept": acknowledged_is_kept,
    "seen is kept": seen_is_kept,
    "nothing phantom": nothing_phantom,
    "order of a producer": order_of_a_producer,
    "no duplicate of an idempotent producer": no_duplicate_of_an_idempotent_producer,
    "no skip between polls": no_skip_between_polls,
    "final log is whole": final_log_is_whole,
    "committed offset never moves back": committed_offset_never_moves_back,
    "watermark never moves back": watermark_never_moves_back,
    "start moves where asked": start_moves_where_asked,
    "not before its time": not_before_its_time,
    "not after its end": not_after_its_end,
    "only what is expired is passed": only_what_is_expired_is_passed,
    "visible end never moves back": visible_end_never_moves_back,
    "newest of every key is kept": newest_of_every_key_is_kept,
    "deletions are seen": deletions_are_seen,
    "offsets by time are exact": offsets_by_time_are_exact,
}


def _place(event: Event) -> Place:
    return event["topic"], event["partition"]


def _is_asked(event: Event, operation: str) -> bool:
    return bool(event["operation"] == operation and event["kind"] == INVOKE)


def _completed(events: Iterable[Event], operation: str) -> Iterator[Event]:
    return (event for event in events if event["operation"] == operation and event["kind"] == OK)


def _sends(events: Iterable[Event]) -> list[Send]:
    """In the order of their invocation; one without an outcome is info."""
    sends: dict[int, Send] = {}
    for event in events:
        if event["operation"] != "send":
            continue
        if event["kind"] == INVOKE:
            sends[event["id"]] = Send(event, INFO, None)
        else:
            asked = sends[event["id"]].event
            sends[event["id"]] = Send(asked, event["kind"], event.get("offset"))
    return list(sends.values())


def _observations(events: Sequence[Event]) -> Iterator[tuple[Place, int, Any, str]]:
    """(place, offset, value, who saw it)."""
    for event in events:
        if event["kind"] == OK and event["operation"] in {"poll", "watch", "final"}:
            witness = event.get("reader", "the final log")
            for offset, value in event["records"]:
                yield _place(event), offset, value, witness
    for send in _sends(events):
        if send.kind == OK and send.offset is not None:
            yield _place(send.event), send.offset, send.event["value"], "its producer"


def _final_records(events: Sequence[Event]) -> dict[Place, list[tuple[int, Any]]]:
    return {
        _place(event): [(offset, value) for offset, value in event["records"]]
        for event in _completed(events, "final")
    }


def _gaps(offsets: Sequence[int]) -> str:
    if not offsets:
        return "no record"
    for before, after in pairwise(offsets):
        if after != before + 1:
            return f"{before} and then {after}"
    return f"[{offsets[0]}, {offsets[-1] + 1})"
