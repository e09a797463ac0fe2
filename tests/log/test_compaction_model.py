"""Compaction is equal to a naive one: any batches, codecs, producers, transactions, tombstones,
times.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.log.cleaner import CleanLimits
from broker.log.config import LogConfig
from broker.log.key_map import KeyMap, capacity_of, digest_of
from broker.log.partition_log import PartitionLog
from broker.records.batch import TRANSACTIONAL_BIT
from broker.records.build import NewRecord
from broker.runtime.disk import SystemDisk
from tests.log.compaction_model import (
    ABORT,
    COMMIT,
    Model,
    append_batch,
    append_marker,
    batches_of,
    data_of,
)
from tests.log.world import DIRECTORY, NOW_MS, InlineWorker, create, reopen

CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=100,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
)
WORKER = InlineWorker()
TINY = CleanLimits(dedupe_buffer_bytes=100)
"""Room for three keys."""

records = st.tuples(
    st.sampled_from([b"a", b"b", b"c", b"d", b"e", None]),
    st.none() | st.sampled_from([b"1", b"22" * 30]),
    st.just(()) | st.just((("h", b"x"),)),
    st.sampled_from([0, 5, NOW_MS, NOW_MS + 10**12]),
).map(lambda fields: NewRecord(*fields))
appends = st.tuples(
    st.just("append"),
    st.lists(records, min_size=1, max_size=5),
    st.sampled_from(["none", "none", "gzip", "snappy", "lz4", "zstd"]),
    st.sampled_from([None, None, 1, 2, 11, 12]),  # from 11 on, in transactions
)
ends = st.tuples(st.just("end"), st.sampled_from([11, 12]), st.sampled_from([ABORT, COMMIT]))
pauses = st.tuples(st.just("later"), st.sampled_from([400, 1000]))
upkeep = st.sampled_from([("roll",), ("roll",), ("clean",), ("clean",), ("reopen",)])
steps = st.one_of(appends, appends, appends, ends, pauses, upkeep, upkeep)
histories = st.lists(steps, min_size=10, max_size=50)


class Run:
    """A log and its model."""

    def __init__(self, disk: SystemDisk, limits: CleanLimits) -> None:
        self.disk = disk
        self.limits = limits
        self.model = Model(CONFIG.delete_retention_ms)
        self.sequences: Counter[int] = Counter()
        self.now_ms = NOW_MS
        self.log: PartitionLog

    async def take(self, step: Any) -> None:
        match step:
            case "append", entries, codec, producer:
                options: dict[str, Any] = {"compression": codec}
                if producer is not None:
                    options |= {
                        "producer_id": producer,
                        "producer_epoch": 0,
                        "base_sequence": self.sequences[producer],
                        "attributes": TRANSACTIONAL_BIT if producer > 10 else 0,
                    }
                    self.sequences[producer] += len(entries)
                append_batch(self.log, self.model, entries, **options)
            case "end", producer, kind:
                if producer in self.model.open_offsets:
                    append_marker(self.log, self.model, producer, kind)
            case "later", span_ms:
                self.now_ms += span_ms
            case ("roll",):
                await self.log.roll(NOW_MS)
            case ("clean",):
                await self.log.clean(WORKER, self.now_ms, self.limits)
                if len(self.log.segments) > 1:
                    self.model.clean(self.log.active.base_offset, self.now_ms)
            case ("reopen",):
                await self.log.close()
                self.log = await reopen(self.disk, CONFIG)


def run(taken: list[Any], limits: CleanLimits, check: Any) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory:
            made = Run(SystemDisk(Path(directory)), limits)
            made.log = await create(made.disk, CONFIG)
            for step in taken:
                await made.take(step)
            await check(made)
            await made.log.close()
            made.disk.close()

    asyncio.run(main())


async def is_equal(made: Run) -> None:
    log, model = made.log, made.model
    model.compare(await batches_of(log))
    for offset in range(log.log_end_offset):
        assert await data_of(log, offset) == model.data(offset)
    assert log.damage == []
    assert log.uncleanable_reason == ""


A_SPANS_THE_END = [
    ("append", [NewRecord(b"a", b"1")], "none", None),
    ("append", [NewRecord(b"a", b"aborted")], "none", 11),
    ("roll",),
    ("end", 11, ABORT),
    ("append", [NewRecord(b"b", b"1")], "none", None),
    ("clean",),
]

OPEN_FROM_THE_FIRST_RECORD = [
    ("append", [NewRecord(None, b"1")], "none", 12),
    ("roll",),
    ("clean",),
]


@example(A_SPANS_THE_END)
@example(OPEN_FROM_THE_FIRST_RECORD)
@given(histories)
@settings(max_examples=60, deadline=None)
def test_a_cleaned_log_equals_the_model(taken: list[Any]) -> None:
    run(taken, CleanLimits(), is_equal)


@example(OPEN_FROM_THE_FIRST_RECORD)
@given(histories)
@settings(max_examples=25, deadline=None)
def test_a_map_too_small_for_all_keys_takes_passes_and_comes_to_the_same(taken: list[Any]) -> None:
    async def has_the_same_records(made: Run) -> None:
        await made.take(("clean",))
        log, model = made.log, made.model
        for offset in range(log.log_end_offset):
            assert await data_of(log, offset) == model.data(offset)
        assert log.uncleanable_reason == ""

    run(taken, TINY, has_the_same_records)


@given(histories)
@settings(max_examples=25, deadline=None)
def test_sequences_of_producers_survive_the_loss_of_every_snapshot(taken: list[Any]) -> None:
    async def is_remembered(made: Run) -> None:
        await made.take(("clean",))
        await made.log.close()
        for path in (made.disk.root / DIRECTORY).glob("*.snapshot"):
            path.unlink()
        end = made.log.log_end_offset
        made.log = await reopen(made.disk, CONFIG)
        assert made.log.log_end_offset == end
        entries = made.log.producers.entries
        found = {key: entry[2][-1].last_sequence + 1 for key, entry in entries.items()}
        assert found == {key: count for key, count in made.sequences.items() if count}

    run(taken, CleanLimits(), is_remembered)


def committed(found: list[Any], model: Model) -> dict[bytes | None, bytes | None]:
    """What read_committed readers know at the end, per key."""
    open_from = min(model.open_offsets.values(), default=1 << 62)
    state: dict[bytes | None, bytes | None] = {}
    for record in found:
        is_aborted = any(record.offset in gone for gone in aborted_offsets(model))
        if record.offset < open_from and not is_aborted and record.key is not None:
            state[record.key] = record.value
    return {key: value for key, value in state.items() if value is not None}


def aborted_offsets(model: Model) -> list[range]:
    return [
        range(batch.base_offset, batch.last_offset + 1)
        for batch in model.batches
        if model.is_aborted(batch)
    ]


@given(histories, st.sampled_from([CleanLimits(), TINY]))
@settings(max_examples=25, deadline=None)
def test_committed_readers_know_the_same_before_and_after_every_clean(
    taken: list[Any], limits: CleanLimits
) -> None:
    async def is_the_same(made: Run) -> None:
        for _ in range(3):
            everything = Model(0, list(made.model.batches))
            everything.aborted = list(made.model.aborted)
            everything.open_offsets = dict(made.model.open_offsets)
            before = committed(await data_of(made.log), everything)
            made.now_ms += 700
            await made.log.clean(WORKER, made.now_ms, limits)
            assert committed(await data_of(made.log), everything) == before

    run([step for step in taken if step != ("clean",)], limits, is_the_same)


@given(st.lists(st.binary(max_size=3), max_size=60), st.integers(1, 40))
def test_the_map_is_a_dictionary_of_bounded_size(keys: list[bytes], capacity: int) -> None:
    found = KeyMap(capacity)
    wanted: dict[bytes, int] = {}
    for offset, key in enumerate(keys):
        has_room = key in wanted or len(wanted) < capacity
        assert found.put(digest_of(key), offset) == has_room
        if has_room:
            wanted[key] = offset
    assert len(found) == len(wanted) <= capacity
    for key in keys:
        assert found.newest(digest_of(key)) == wanted.get(key, -1)


def test_the_map_takes_as_much_memory_as_it_may() -> None:
    assert capacity_of(32 * 1000, 10**9) == 1000
    assert capacity_of(1 << 30, 17) == 17
