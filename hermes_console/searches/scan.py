"""Looking through stored batches for what a search wants. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.client.batches import Batch, FetchedBatches
from broker.client.blocking import BrokerRefusal
from hermes_console.searches.criteria import Matcher


class Found(NamedTuple):
    """A place and a time."""

    partition: int
    offset: int
    timestamp_ms: int


@dataclass(slots=True)
class Tally:
    """What was looked at since the last save, and what was found."""

    records: int = 0
    bytes: int = 0
    unreadable_batches: int = 0
    found: list[Found] = field(default_factory=list)


def end_of(answer: FetchedBatches, position: int) -> int:
    """The offset after the answer's last whole batch; `position` when it has none."""
    for batch in answer.batches():
        position = max(position, batch.next_offset)
    return position


def scan(
    answer: FetchedBatches,
    matcher: Matcher,
    partition: int,
    position: int,
    end: int,
    tally: Tally,
    room: int,
) -> int:
    """Look at the answer's records in [position, end) until `room` more are found. Returns the
    offset after the last one looked at. A batch that cannot be read is counted and passed.
    """
    for batch in answer.batches():
        if batch.next_offset <= position:
            continue
        if batch.base_offset >= end:
            return end
        tally.records += batch.header.record_count
        tally.bytes += len(batch.content)
        if not batch.is_control:
            try:
                for one in _matching(batch, matcher, partition, position, end):
                    tally.found.append(one)
                    if len(tally.found) >= room:
                        return one.offset + 1
            except BrokerRefusal:
                tally.unreadable_batches += 1
        position = batch.next_offset
    return min(position, end)


def _matching(
    batch: Batch, matcher: Matcher, partition: int, position: int, end: int
) -> list[Found]:
    batch.check()
    if not matcher.may_match(batch.unpacked(), batch.header.max_timestamp):
        return []
    return [
        Found(partition, record.offset, record.timestamp)
        for record in batch.records()
        if position <= record.offset < end and matcher.matches(record)
    ]
