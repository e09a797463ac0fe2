"""Compaction: the newest value of each key, at its offset, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.cleanable import is_due
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.ports import DiskFull
from broker.records.batch import DELETE_HORIZON_BIT, is_intact, read_header
from broker.records.build import build_batch
from broker.records.iterate import Record, iterate_batches, iterate_records
from broker.runtime.disk import SystemDisk
from broker.runtime.worker import ProcessWorker
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    FaultyDisk,
    InlineWorker,
    append,
    append_keyed,
    create,
    read_from,
    reopen,
)

CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
)
WORKER = InlineWorker()


def newest(records: list[Record]) -> dict[bytes, tuple[int, bytes | None]]:
    """What a reader knows at the end: per key (offset, value)."""
    return {record.key or b"": (record.offset, record.value) for record in records}


async def fill(
    log: PartitionLog, count: int, keys: int = 5, *, now_ms: int = NOW_MS, **options: Any
) -> None:
    """Append `count` batches of two records over `keys` keys."""
    for number in range(count):
        pairs = [
            (f"k{(2 * number + place) % keys}", f"v{2 * number + place}") for place in range(2)
        ]
        append_keyed(log, *pairs, now_ms=now_ms, **options)
        if log.needs_roll:
            await log.roll(now_ms)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_only_the_newest_values_stay_at_their_offsets(disk: FaultyDisk, codec: str) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 60, compression=codec)
    before = await read_from(log, 0)
    size = log.log_size()
    assert is_due(log, NOW_MS)
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    assert not is_due(log, NOW_MS)
    after = await read_from(log, 0)
    assert newest(after) == newest(before)
    assert set(after) <= set(before)
    assert log.log_size() < size / 2
    closed = [record for record in after if record.offset < log.active.base_offset]
    assert len({record.key for record in closed}) == len(closed)
    await log.clean(WORKER, NOW_MS)  # puts together what has become small
    for _ in range(2):
        log = await reopen(disk, CONFIG)
        assert await read_from(log, 0) == after
        assert log.damage == []
        assert not (await log.clean(WORKER, NOW_MS)).is_changed, "there is nothing left to do"
    await log.close()


async def test_the_work_is_done_by_the_worker_process(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 40)
    before = newest(await read_from(log, 0))
    worker = ProcessWorker()
    try:
        assert (await log.clean(worker, NOW_MS)).is_changed
        found = await log.offset_for_timestamp(NOW_MS, FOREVER, worker)
    finally:
        worker.close()
    assert newest(await read_from(log, 0)) == before
    assert found is not None
    await log.close()


async def test_reads_in_the_gaps_go_on_with_what_is_left(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 60)
    await log.clean(WORKER, NOW_MS)
    everything = await read_from(log, 0)
    for offset in range(log.log_end_offset):
        assert await read_from(log, offset) == [
            record for record in everything if record.offset >= offset
        ]
    assert log.read(log.log_end_offset, 100, FOREVER, at_least_one=True) is not None
    await log.close()


async def test_tombstones_stay_for_the_delay_counted_from_the_first_clean(disk: FaultyDisk) -> None:
    """KAFKA-4529: whatever the records' timestamps say."""
    for client_time in (0, NOW_MS, NOW_MS * 2):
        log = await PartitionLog.create(
            disk,
            f"{DIRECTORY}{client_time}",
            topic_id=bytes(16),
            partition=0,
            topic="t",
            config=CONFIG,
            now_wall_ms=NOW_MS,
        )
        append_keyed(log, ("gone", "value"), ("kept", "value"))
        append_keyed(log, ("gone", None), now_ms=client_time, attributes=0)
        await log.roll(NOW_MS)
        append_keyed(log, ("x", "y"))

        def tombstones(records: list[Record]) -> list[int]:
            return [record.timestamp for record in records if record.value is None]

        await log.clean(WORKER, NOW_MS + 10_000)
        assert tombstones(await read_from(log, 0)) == [client_time]
        await log.clean(WORKER, NOW_MS + 10_999)
        assert tombstones(await read_from(log, 0)) == [client_time]
        await log.clean(WORKER, NOW_MS + 11_000)
        assert [record.key for record in await read_from(log, 0)] == [b"kept", b"x"]
        await log.close()


async def test_the_delete_horizon_is_written_as_kafka_does(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append_keyed(log, ("a", None), ("b", "1"))
    await log.roll(NOW_MS)
    append_keyed(log, ("x", "y"))
    await log.clean(WORKER, NOW_MS)
    result = await log.read_cold(0, 10_000, FOREVER, at_least_one=True)
    batch = next(iterate_batches(result.records))
    header = read_header(batch)
    assert is_intact(batch)
    assert header.attributes & DELETE_HORIZON_BIT
    assert header.base_timestamp == NOW_MS + CONFIG.delete_retention_ms
    assert [record.timestamp for record in await read_from(log, 0)] == [NOW_MS] * 3
    await log.close()


async def test_records_without_a_key_go_and_unreadable_batches_stay(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append(log, "unreadable", attributes=1)
    append_keyed(log, ("a", "1"))
    batch = build_batch([(None, b"no key"), (b"b", b"1")], timestamp_ms=NOW_MS)
    log.stage(memoryview(batch), leader_epoch=0, now_wall_ms=NOW_MS)
    append_keyed(log, ("a", "2"))
    await log.roll(NOW_MS)
    append_keyed(log, ("x", "y"))
    cleaned = await log.clean(WORKER, NOW_MS)
    result = await log.read_cold(0, 10_000, FOREVER, at_least_one=True)
    batches = list(iterate_batches(result.records))
    assert [read_header(batch).base_offset for batch in batches] == [0, 2, 4]
    assert [record.offset for record in iterate_records(batches[1])] == [3]
    assert "cannot be opened" in log.uncleanable_reason
    assert cleaned.damage == (log.uncleanable_reason,)
    assert log.damage == [], "what a client sent is no damage of the disk"
    await log.close()


async def test_when_nothing_closed_survives_readers_still_get_past_it(disk: FaultyDisk) -> None:
    log = await create(disk, replace(CONFIG, delete_retention_ms=0))
    append_keyed(log, ("a", "1"), ("a", None))
    append_keyed(log, ("b", None))
    await log.roll(NOW_MS)
    for now_ms in (NOW_MS, NOW_MS + 1):
        await log.clean(WORKER, now_ms)
    assert await read_from(log, 0) == []
    for _ in range(2):
        assert (log.log_start_offset, log.log_end_offset) == (0, 3), (
            "nobody's offset is out of range"
        )
        result = await log.read_cold(0, 1000, FOREVER, at_least_one=True)
        assert result.next_offset == 3
        assert read_header(result.records).next_offset == 3, "clients go on from a batch's end"
        assert list(iterate_records(result.records)) == []
        log = await reopen(disk, CONFIG)
    append_keyed(log, ("x", "y"))
    assert [record.offset for record in await read_from(log, 0)] == [3]
    await log.close()


async def test_appends_and_rolls_go_on_during_a_clean(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 40)
    cleaning = asyncio.create_task(log.clean(WORKER, NOW_MS))
    while not cleaning.done():
        await fill(log, 1)
        await asyncio.sleep(0)
    assert cleaning.result().is_changed
    everything = await read_from(log, 0)
    assert everything[-1].offset == log.log_end_offset - 1
    assert len(newest(everything)) == 5
    log = await reopen(disk, CONFIG)
    assert await read_from(log, 0) == everything
    await log.close()


async def test_a_full_disk_leaves_the_log_as_it_was(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 60)
    before = await read_from(log, 0)
    disk.fail_append = (20, DiskFull)
    with pytest.raises(DiskFull):
        await log.clean(WORKER, NOW_MS)
    assert await read_from(log, 0) == before
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    assert newest(await read_from(log, 0)) == newest(before)
    await log.close()


async def test_what_a_start_would_scan_is_not_compacted(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    disk.fail_replace = DiskFull  # no checkpoint can be written
    for _ in range(3):
        for number in range(10):
            append_keyed(log, (f"k{number % 3}", "v"))
        with pytest.raises(DiskFull):
            await log.roll(NOW_MS)
    before = await read_from(log, 0)
    with pytest.raises(DiskFull):
        await log.clean(WORKER, NOW_MS)
    disk.fail_replace = None
    again = await reopen(disk, CONFIG)
    assert again.damage == []
    assert await read_from(again, 0) == before
    assert (await again.clean(WORKER, NOW_MS)).is_changed
    assert newest(await read_from(again, 0)) == newest(before)
    await again.close()
    for segment in log.segments:
        segment.close_file()


class StoppedDisk(SystemDisk):
    """Counts changes of names and contents; the one beyond `allowed` ends the process."""

    allowed = 1 << 30

    def step(self) -> None:
        self.allowed -= 1
        if self.allowed < 0:
            raise KeyboardInterrupt

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    async def unlink(self, path: str) -> None:
        self.step()
        await super().unlink(path)

    async def unlink_in_steps(self, path: str) -> None:
        self.step()
        await super().unlink_in_steps(path)

    async def create(self, path: str) -> Any:
        self.step()
        return await super().create(path)

    async def replace_file(self, path: str, content: bytes) -> None:
        self.step()
        await super().replace_file(path, content)


async def test_a_crash_at_any_step_of_a_clean_loses_nothing(tmp_path: Path) -> None:
    origin = SystemDisk(tmp_path / "origin")
    log = await create(origin, CONFIG)
    await fill(log, 40)
    before = await read_from(log, 0)
    await log.close()
    origin.close()
    steps = 0
    is_finished = False
    while not is_finished:
        root = tmp_path / f"crash-{steps}"
        shutil.copytree(tmp_path / "origin", root)
        disk = StoppedDisk(root)
        log = await reopen(disk, CONFIG)
        disk.allowed = steps
        try:
            await log.clean(WORKER, NOW_MS)
            is_finished = True
        except KeyboardInterrupt:
            steps += 1
        disk.allowed = 1 << 30
        again = await reopen(disk, CONFIG)
        after = await read_from(again, 0)
        assert newest(after) == newest(before), steps
        assert set(after) <= set(before)
        assert again.damage == []
        append_keyed(again, ("k0", "later"))
        await again.close()
        for segment in log.segments:
            segment.users = 0
            segment.close_file()
        disk.close()
    assert steps > 10


keys = st.sampled_from([f"k{number}" for number in range(4)])
pairs = st.tuples(keys, st.none() | st.sampled_from(["x", "y" * 50]))


@given(
    st.lists(
        st.lists(pairs, min_size=1, max_size=4) | st.sampled_from(["roll", "clean", "later"]),
        max_size=40,
    )
)
@settings(max_examples=30, deadline=None)
def test_readers_see_the_same_state_before_and_after_every_clean(steps: list[Any]) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as directory:
            disk = SystemDisk(Path(directory))
            log = await create(disk, CONFIG)
            now_ms = NOW_MS
            state: dict[bytes, bytes] = {}
            for step in steps:
                match step:
                    case "roll":
                        await log.roll(now_ms)
                    case "clean":
                        await log.clean(WORKER, now_ms)
                    case "later":
                        now_ms += 600
                    case _:
                        append_keyed(log, *step, now_ms=now_ms)
                        for key, value in step:
                            state.pop(key.encode(), None)
                            if value is not None:
                                state[key.encode()] = value.encode()
                seen = {
                    key: value
                    for key, (_, value) in newest(
                        await read_from(log, log.log_start_offset)
                    ).items()
                }
                assert {key: value for key, value in seen.items() if value is not None} == state
            end = log.log_end_offset
            await log.close()
            log = await reopen(disk, CONFIG)
            assert log.log_end_offset == end
            assert log.damage == []
            await log.close()
            disk.close()

    asyncio.run(check())


async def test_many_commits_of_one_key_restart_quickly(disk: FaultyDisk) -> None:
    config = replace(CONFIG, segment_bytes=256 * 1024, index_interval_bytes=4096)
    log = await create(disk, config)
    for _ in range(200):
        append_keyed(log, *[("group-topic-0", "offset-value" * 3)] * 500)
        if log.needs_roll:
            await log.roll(NOW_MS)
            if is_due(log, NOW_MS):
                await log.clean(WORKER, NOW_MS)
    await log.close()
    began = process_time()
    log = await reopen(disk, config)
    records = await read_from(log, log.log_start_offset, 1 << 20)
    assert process_time() - began < 1
    assert log.log_end_offset == 100_000
    assert len(records) < 10_000
    await log.close()
