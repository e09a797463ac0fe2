"""Pages of messages from stored batches: whatever the log looks like and however small the budget,
paging shows each message once, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.client.batches import FetchedBatches
from broker.client.blocking import BrokerRefusal
from broker.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from broker.records.build import NewRecord, build_batch
from hermes_console.operations.messages_query import (
    BadCursor,
    Budget,
    Cursor,
    Direction,
    make_cursor,
    read_cursor,
)
from hermes_console.operations.messages_reading import Page, Stop, read_page

Log = list[tuple[int, bytearray]]
"""(next offset, batch) in order."""


@st.composite
def logs(draw: Any) -> tuple[Log, int]:
    """A partition's batches, with gaps as compaction leaves them, and its end."""
    log: Log = []
    offset = draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 6))):
        deltas = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=8)))
        records = [
            NewRecord(
                draw(st.sampled_from([b"a", b"b", None])),
                b"v" * draw(st.integers(0, 200)),
                timestamp_ms=draw(st.integers(0, 50)),
                offset_delta=delta,
            )
            for delta in deltas
        ]
        compression = draw(st.sampled_from(["none", "lz4"]))
        batch = build_batch(records, timestamp_ms=0, base_offset=offset, compression=compression)
        offset += deltas[-1] + 1
        log.append((offset, batch))
        offset += draw(st.sampled_from([0, 0, 3, 40]))
    return log, offset


def fetch_from(partitions: Mapping[int, Log], total_bytes: int) -> Any:
    """As brokers answer: whole batches from the one that holds the offset on, at least one for the
    first partition that has any, none for others once `total_bytes` are used.
    """

    def fetch(
        positions: Mapping[int, int], partition_bytes: int
    ) -> Mapping[int, FetchedBatches | BrokerRefusal]:
        left = total_bytes
        found: dict[int, FetchedBatches | BrokerRefusal] = {}
        for partition, position in positions.items():
            content = bytearray()
            for next_offset, batch in partitions[partition]:
                if next_offset <= position:
                    continue
                is_first_of_all = left == total_bytes and not content
                if not is_first_of_all and len(content) + len(batch) > min(left, partition_bytes):
                    break
                content += batch
            left = max(0, left - len(content))
            found[partition] = FetchedBatches(0, 0, 0, memoryview(bytes(content)))
        return found

    return fetch


def everything(partitions: Mapping[int, Log], key: bytes | None) -> set[tuple[int, int]]:
    page = read_page(
        fetch_from(partitions, 1 << 30),
        dict.fromkeys(partitions, (0, 10000)),
        Direction.NEWER,
        Budget(100_000, 1 << 40, 1_000),
        key=key,
        clock_s=lambda: 0.0,
    )
    return {(one.partition, one.offset) for one in page.messages}


def pages(
    partitions: Mapping[int, tuple[Log, int]],
    direction: Direction,
    budget: Budget,
    key: bytes | None,
    total_bytes: int,
) -> list[Page]:
    """All pages in one direction."""
    logs_only = {number: log for number, (log, _) in partitions.items()}
    ranges = {number: (0, end) for number, (_, end) in partitions.items()}
    found: list[Page] = []
    for _ in range(2_000):
        page = read_page(
            fetch_from(logs_only, total_bytes),
            ranges,
            direction,
            budget,
            key=key,
            clock_s=lambda: 0.0,
        )
        found.append(page)
        if direction is Direction.OLDER:
            ranges = {number: (0, page.left[number]) for number in ranges}
        else:
            ranges = {number: (page.left[number], partitions[number][1]) for number in ranges}
        if all(low >= high for low, high in ranges.values()):
            return found
    raise AssertionError("the pages never end")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(logs(), min_size=1, max_size=3),
    st.sampled_from(list(Direction)),
    st.integers(1, 7),
    st.sampled_from([1, 300, 1 << 30]),
    st.sampled_from([None, b"a"]),
    st.sampled_from([1, 500, 1 << 30]),
)
def test_paging_shows_every_message_once_and_in_order(
    found: list[tuple[Log, int]],
    direction: Direction,
    records: int,
    bytes_max: int,
    key: bytes | None,
    total_bytes: int,
) -> None:
    partitions = dict(enumerate(found))
    budget = Budget(records, bytes_max, 100)
    shown = [
        (one.partition, one.offset)
        for page in pages(partitions, direction, budget, key, total_bytes)
        for one in page.messages
    ]
    assert len(shown) == len(set(shown)), "no message comes twice"
    assert set(shown) == everything({number: log for number, (log, _) in partitions.items()}, key)
    for partition in partitions:
        offsets = [offset for number, offset in shown if number == partition]
        assert offsets == sorted(offsets, reverse=direction is Direction.OLDER)


@settings(max_examples=40, deadline=None)
@given(st.lists(logs(), min_size=1, max_size=4))
def test_partitions_are_merged_by_time(found: list[tuple[Log, int]]) -> None:
    """Where each partition is in order of time, so is the page."""
    partitions = dict(enumerate(found))
    page = pages(partitions, Direction.NEWER, Budget(100_000, 1 << 40, 10), None, 1 << 30)[0]
    by_partition: dict[int, list[int]] = {}
    for one in page.messages:
        by_partition.setdefault(one.partition, []).append(one.timestamp_ms)
    if all(times == sorted(times) for times in by_partition.values()):
        times = [one.timestamp_ms for one in page.messages]
        assert times == sorted(times)


def test_the_seconds_of_the_budget_end_a_page() -> None:
    batch = build_batch([(b"k", b"v")], timestamp_ms=0)
    now = iter(range(100))
    page = read_page(
        fetch_from({0: [(1, batch)]}, 1 << 30),
        {0: (0, 1_000_000_000)},
        Direction.NEWER,
        Budget(10, 1 << 40, 5),
        clock_s=lambda: float(next(now)),
    )
    assert page.stop is Stop.SECONDS
    assert len(page.messages) == 1, "what was read before is shown"


@given(
    st.sampled_from(list(Direction)),
    st.dictionaries(st.integers(0, 10_000), st.integers(0, 2**63 - 1), min_size=1, max_size=50),
)
def test_cursors_come_back(direction: Direction, positions: dict[int, int]) -> None:
    cursor = Cursor(direction, positions)
    assert read_cursor(make_cursor(cursor)) == cursor


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda content: content.hex()))
def test_other_words_are_no_cursors(text: str) -> None:
    with pytest.raises(BadCursor):
        read_cursor(text)


def test_a_cursor_that_unpacks_to_much_is_refused() -> None:
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(b"older" + b",0:0" * 1_000_000)).decode()
    with pytest.raises(BadCursor):
        read_cursor(bomb.rstrip("="))


@pytest.mark.parametrize(("kind", "word"), [(0, "abort"), (1, "commit"), (9, "unknown")])
def test_markers_of_transactions_are_told_from_messages(kind: int, word: str) -> None:
    """A control record's key: version and type, two bytes each (KIP-98)."""
    marker = build_batch(
        [(b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\0")],
        timestamp_ms=5,
        base_offset=1,
        producer_id=77,
        producer_epoch=3,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
    )
    message = build_batch(
        [(b"k", None)],
        timestamp_ms=5,
        producer_id=77,
        producer_epoch=3,
        base_sequence=4,
        attributes=TRANSACTIONAL_BIT,
    )
    partitions = {0: [(1, message), (2, marker)]}
    page = read_page(
        fetch_from(partitions, 1 << 30), {0: (0, 2)}, Direction.NEWER, Budget(), clock_s=lambda: 0.0
    )
    first, second = page.messages
    assert (first.control, first.is_tombstone, first.sequence) == ("", True, 4)
    assert (second.control, second.is_tombstone) == (word, False)
    assert first.is_transactional
    assert (second.producer_id, second.producer_epoch) == (77, 3)
