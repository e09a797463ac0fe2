"""Opening after every kind of stop: nothing that was synced is lost, nothing torn is served."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from broker.errors import ErrorCode, Refusal
from broker.log.age import PRECISION_MS, append_time
from broker.log.config import LogConfig
from broker.log.open_segments import measure
from broker.log.partition_log import PartitionLog
from broker.log.scan import scan
from broker.log.survey import damaged_ranges
from broker.ports import DiskFault, DiskFull
from broker.runtime.disk import SystemDisk
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    SMALL,
    FaultyDisk,
    FaultyFile,
    append,
    append_rolling,
    create,
    numbers,
    read_from,
    refusal_of,
    reopen,
    values,
)

FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"


async def test_a_clean_stop_is_followed_by_a_start_without_a_scan(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 60)
    await log.close()
    for segment_log in [n for n in disk.list_directory(DIRECTORY) if n.endswith(".log")][:-1]:
        (disk.root / DIRECTORY / segment_log).chmod(0o000)
    log = await reopen(disk)
    assert log.log_end_offset == 60
    assert sum(segment.is_open for segment in log.segments) == 0
    for path in (disk.root / DIRECTORY).iterdir():
        path.chmod(0o600)
    assert await values(log) == numbers(60)
    append(log, "v60")
    assert await values(log) == numbers(61)
    await log.close()


class CountingDisk(FaultyDisk):
    """Counts what an opening asks of the disk."""

    count = 0

    def list_directory(self, path: str) -> list[str]:
        self.count += 1
        return super().list_directory(path)

    def exists(self, path: str) -> bool:
        self.count += 1
        return super().exists(path)

    def file_size(self, path: str) -> int:
        self.count += 1
        return super().file_size(path)

    def read_file(self, path: str) -> bytes:
        self.count += 1
        return super().read_file(path)

    def open(self, path: str) -> FaultyFile:
        self.count += 1
        return super().open(path)

    async def run_write(self, path: str, function: Any, *arguments: object) -> Any:
        self.count += 1
        return await super().run_write(path, function, *arguments)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_closed_segments_cost_a_start_nothing_but_their_names(
    tmp_path: Path, *, is_clean: bool
) -> None:
    counts = {}
    for segment_count in (2, 60):
        disk = CountingDisk(tmp_path / str(segment_count))
        log = await create(disk)
        while len(log.segments) <= segment_count:
            await append_rolling(log, 1)
        append(log, f"v{log.log_end_offset}")
        end = log.log_end_offset
        if is_clean:
            await log.close()
        disk.count = 0
        log = await reopen(disk)
        counts[segment_count] = disk.count
        assert (log.log_end_offset, len(log.segments)) == (end, segment_count + 1)
        before = disk.count
        await measure(log)
        assert disk.count - before == segment_count
        assert log.log_size() == sum(
            path.stat().st_size for path in (disk.root / DIRECTORY).glob("*.log")
        )
        assert disk.count - before == segment_count, "asked once"
        assert await values(log) == numbers(end)
        await log.close()
        disk.close()
    assert counts[60] == counts[2] <= (12 if is_clean else 30)


async def test_a_killed_process_loses_nothing_that_was_flushed(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 60)
    for _ in range(3):  # never closed
        log = await reopen(disk)
        assert await values(log) == numbers(log.log_end_offset)
        append(log, f"v{log.log_end_offset}")
    assert log.log_end_offset == 63
    assert log.damage == []


async def test_after_a_kill_records_are_as_old_as_before_and_expire_no_sooner(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    for second in range(40):
        append(log, f"v{second}", now_ms=NOW_MS + 1_000 * second)
    later = NOW_MS + 3_600_000
    log = await reopen(disk, now_ms=later)  # never closed
    for restart in range(4):
        for offset in range(40):
            told = await append_time(log, offset, 40)
            assert told is not None
            assert abs(told - (NOW_MS + 1_000 * offset)) <= PRECISION_MS, (restart, offset)
        assert log.last_append_time == later
        assert log.rolls_from_ms == later, "its clients' word rolls nothing"
        await log.close(is_clean=restart != 1)
        log = await reopen(disk, now_ms=later + 1_000 * restart)


async def test_after_a_kill_a_clock_that_is_ahead_makes_no_record_younger_than_the_start(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    append(log, "v0", timestamp_ms=NOW_MS + 500_000)
    log = await reopen(disk, now_ms=NOW_MS + 1_000)
    assert await append_time(log, 0, 1) == NOW_MS + 1_000


async def test_a_torn_tail_is_cut_at_every_byte(disk: FaultyDisk, tmp_path: Path) -> None:
    log = await create(disk)
    append(log, "v0")
    end = log.log_size()
    append(log, "v1")
    size = log.log_size()
    for number, cut in enumerate(range(end, size)):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(tmp_path / "topics", copy / "topics")
        os.truncate(copy / FIRST_LOG, cut)
        other = SystemDisk(copy)
        again = await reopen(other)
        assert (again.log_end_offset, again.log_size()) == (1, end), cut
        assert append(again, "new").base_offset == 1
        assert await values(again) == ["v0", "new"]
        assert again.damage == []
        await again.close()
        other.close()


@pytest.mark.parametrize("junk", [bytes(5000), b"\xff" * 300, b"junk", bytes(61)])
async def test_junk_behind_the_last_batch_is_cut_off(disk: FaultyDisk, junk: bytes) -> None:
    log = await create(disk)
    append(log, "v0")
    with (disk.root / FIRST_LOG).open("ab") as file:
        file.write(junk)
    log = await reopen(disk)
    assert append(log, "v1").base_offset == 1
    assert await values(log) == numbers(2)
    assert log.damage == []
    await log.close()


async def test_damage_before_whole_batches_is_kept_aside_and_named(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig())
    ends = []
    for number in range(20):
        append(log, f"v{number}")
        ends.append(log.log_size())
    path = disk.root / FIRST_LOG
    content = bytearray(path.read_bytes())
    content[ends[9] + 70] ^= 1
    path.write_bytes(content)
    log = await reopen(disk, LogConfig())
    assert await values(log) == numbers(10)
    assert "with whole batches behind it" in log.damage[0]
    kept = next(name for name in disk.list_directory(DIRECTORY) if name.endswith(".damaged"))
    assert disk.read_file(f"{DIRECTORY}/{kept}") == bytes(content[ends[9] :])
    append(log, "v10")
    await log.close()
    log = await reopen(disk, LogConfig())
    assert await values(log) == numbers(11)
    assert log.damage == [], "the same damage is met once"
    await log.close()


async def test_segments_behind_unsynced_damage_leave_the_log(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    for name in disk.list_directory(DIRECTORY):  # as if nothing after the first snapshot was synced
        if name.endswith(".snapshot"):
            await disk.unlink(f"{DIRECTORY}/{name}")
    empty = FaultyDisk(disk.root / "empty")
    await create(empty)
    snapshot = f"{DIRECTORY}/{0:020d}.snapshot"
    await disk.replace_file(snapshot, empty.read_file(snapshot))
    empty.close()
    path = disk.root / DIRECTORY / f"{bases[1]:020d}.log"
    path.write_bytes(path.read_bytes()[:-10])
    log = await reopen(disk)
    assert log.segments[-1].base_offset == bases[1]
    assert await values(log) == numbers(log.log_end_offset)
    assert bases[1] < log.log_end_offset < bases[2]
    assert "was not synced" in log.damage[0]
    await log.close()


async def test_without_a_snapshot_everything_is_checked_and_later_segments_stay(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    await append_rolling(log, 40)
    await log.close()
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(".snapshot"):
            await disk.replace_file(f"{DIRECTORY}/{name}", b"HSNP" + bytes(200))
    log = await reopen(disk)
    assert await values(log) == numbers(40)
    assert log.damage == []
    await log.close()


async def test_a_log_shorter_than_what_was_synced_is_named_and_offsets_are_not_reused(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, LogConfig())
    for number in range(10):
        append(log, f"v{number}")
    size = log.log_size()
    await log.close()
    with (disk.root / FIRST_LOG).open("r+b") as file:
        file.truncate(size // 2)
    log = await reopen(disk, LogConfig())
    assert "shorter than" in log.damage[0]
    assert log.log_end_offset == 10
    assert append(log, "new").base_offset == 10
    lost = damaged_ranges(log)[0]
    assert (lost.offset, lost.end_offset) == (5, 10)
    assert refusal_of(log.read, 7, 100, FOREVER, at_least_one=True) == ErrorCode.CORRUPT_MESSAGE
    assert [record.value for record in await read_from(log, 10)] == [b"new"]
    await log.close()
    log = await reopen(disk, LogConfig())
    assert log.log_end_offset == 11
    await log.close()


@pytest.mark.parametrize("suffix", [".idx", ".timeidx"])
@pytest.mark.parametrize(
    "harm", ["zeros", "truncated", "deleted", "appended", "flipped", "foreign"]
)
async def test_a_bad_index_is_rebuilt_and_retention_keeps_fresh_data(
    disk: FaultyDisk, suffix: str, harm: str
) -> None:
    log = await create(disk)
    await append_rolling(log, 60)
    await log.close()
    paths = sorted((disk.root / DIRECTORY).glob(f"*{suffix}"))
    for path in paths:
        content = bytearray(path.read_bytes())
        match harm:
            case "zeros":
                path.write_bytes(bytes(len(content)))
            case "truncated":
                path.write_bytes(content[: len(content) // 2])
            case "deleted":
                path.unlink()
            case "appended":
                path.write_bytes(content + bytes(4096))
            case "flipped":
                content[-3] ^= 8
                path.write_bytes(content)
            case "foreign":
                path.write_bytes(paths[0].read_bytes() if path != paths[0] else b"")
    log = await reopen(disk, now_ms=NOW_MS + 1000)
    assert await log.apply_retention(NOW_MS + 1000) == 0
    for offset in reversed(range(60)):  # so that none is remembered from the read before
        assert (await read_from(log, offset))[0].value == f"v{offset}".encode()
    found = await log.offset_for_timestamp(NOW_MS, FOREVER)
    assert found is not None
    assert found.offset == 0
    assert log.damage == []
    await log.close()
    log = await reopen(disk, now_ms=NOW_MS + 2000)
    assert all(segment.load_index() for segment in log.segments), "rebuilt files are good"
    await log.close()


async def test_a_damaged_batch_is_refused_when_read_and_named(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig(index_interval_bytes=10_000))
    for number in range(10):
        append(log, f"v{number}")
    await log.close()
    content = bytearray((disk.root / FIRST_LOG).read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    (disk.root / FIRST_LOG).write_bytes(content)
    log = await reopen(disk, LogConfig(index_interval_bytes=10_000))
    assert log.read(9, 100, FOREVER, at_least_one=True) is None, "looked at off the loop"
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            await log.read_cold(9, 100, FOREVER, at_least_one=True)
        assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
        assert refused.value.message.endswith("seek to offset 10 to go on")
    assert len(log.damage) == 1
    assert "seeks to offset 10" in log.damage[0]
    await log.close()


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\x00" * 50, b'{"format": 9}'])
async def test_a_bad_partition_file_is_one_clear_sentence(
    disk: FaultyDisk, content: bytes | None
) -> None:
    await (await create(disk)).close()
    path = f"{DIRECTORY}/partition.json"
    await disk.unlink(path)
    if content is not None:
        await disk.replace_file(path, content)
    with pytest.raises(DiskFault, match=r"partition\.json") as fault:
        await reopen(disk)
    assert any(word in str(fault.value) for word in ("restore", "run the version"))


@pytest.mark.parametrize("content", [None, b"", b"1\n1\n0 0\n00000000\n", b"\xff" * 9])
async def test_a_bad_epoch_file_does_not_stop_the_start(
    disk: FaultyDisk, content: bytes | None
) -> None:
    log = await create(disk)
    append(log, "a", epoch=2)
    await log.close()
    await disk.unlink(f"{DIRECTORY}/leader-epochs")
    if content is not None:
        await disk.replace_file(f"{DIRECTORY}/leader-epochs", content)
    log = await reopen(disk)
    assert append(log, "b", epoch=3).base_offset == 1
    assert log.end_offset_for_epoch(3) == (3, 2)
    await log.close()


async def test_leftovers_of_a_crash_are_cleared(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 30)
    await log.close()
    for name in ("x.deleted", f"{0:020d}-{0:020d}.cleaned", "a.3.tmp"):
        await disk.replace_file(f"{DIRECTORY}/{name}", b"left")
    log = await reopen(disk)
    assert await values(log) == numbers(30)
    await log.close()
    assert not [
        n for n in disk.list_directory(DIRECTORY) if n.endswith((".deleted", ".cleaned", ".tmp"))
    ]


async def test_a_full_disk_at_start_still_serves(disk: FaultyDisk) -> None:
    log = await create(disk)
    append(log, "v0")
    append(log, "v1")
    disk.fail_create = DiskFull
    log = await reopen(disk)
    assert await values(log) == numbers(2)
    assert "no space" in log.damage[0]
    disk.fail_create = None
    await log.close()


async def test_a_partition_holds_few_descriptors_whatever_is_read(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 200)
    assert len(log.segments) > 8
    await values(log)
    assert sum(segment.is_open for segment in log.segments) <= 3
    assert sum(segment.index is not None for segment in log.segments) <= 3
    await log.close()
    assert sum(segment.is_open for segment in log.segments) == 0


@pytest.mark.parametrize("value", ["v", "v" * 2_000])
async def test_walk_leaves_the_loop_to_others_after_some_batches(
    disk: FaultyDisk, value: str
) -> None:
    log = await create(disk, LogConfig())
    for _ in range(1_000):
        append(log, value)
    turn = 0

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    visits: Counter[int] = Counter()
    end = await scan(log.segments[0], 0, 0, lambda _header, _position: visits.update((turn,)))
    counting.cancel()
    assert end == (log.log_size(), 1_000, None)
    assert visits.total() == 1_000
    assert max(visits.values()) <= 128
    await log.close()


async def test_a_thousand_partitions_open_quickly_after_a_clean_stop(disk: FaultyDisk) -> None:
    log = await create(disk, SMALL)
    await append_rolling(log, 30)
    await log.close()
    source = disk.root / DIRECTORY
    directories = [f"topics/many/partition-{number:03d}" for number in range(1000)]
    for directory in directories:
        shutil.copytree(source, disk.root / directory)
    began = process_time()
    logs = [await PartitionLog.open(disk, directory, SMALL, NOW_MS) for directory in directories]
    assert process_time() - began < 3
    assert {log.log_end_offset for log in logs} == {30}
    for log in logs:
        await log.close()
