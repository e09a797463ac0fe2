"""The real disk: short writes, errors with names, warm and cold reads, one owner per directory."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.ports import DiskFault, DiskFull
from broker.runtime import disk as disk_module
from broker.runtime import writeback
from broker.runtime.disk import IOVEC_MAX, READER_NICENESS, SystemDisk
from broker.runtime.linux import has_honest_syncfs
from broker.runtime.writeback import (
    AHEAD_BYTES,
    AHEAD_FILES_MAX,
    STEP_BYTES,
    Writeback,
    WritebackThread,
)
from tests.support.file_systems import syncs_here


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path / "data")
    yield opened
    opened.close()


async def test_appended_chunks_are_read_back_in_order(disk: SystemDisk) -> None:
    file = await disk.create("a")
    file.append([b"one", memoryview(b"two"), bytearray(b"three")])
    assert (file.size(), file.read(3, 3), file.read(0, 100)) == (11, b"two", b"onetwothree")
    assert await file.read_cold(6, 100) == b"three"
    file.close()
    assert disk.file_size("a") == 11


async def test_more_chunks_than_one_writev_takes_are_all_written(disk: SystemDisk) -> None:
    file = await disk.create("a")
    file.append([b"%04d" % index for index in range(IOVEC_MAX * 2 + 5)])
    assert file.size() == (IOVEC_MAX * 2 + 5) * 4
    assert file.read(file.size() - 4, 4) == b"%04d" % (IOVEC_MAX * 2 + 4)
    file.close()


async def test_short_writev_is_completed(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    monkeypatch.setattr(
        os, "pwritev", lambda descriptor, chunks, at: real(descriptor, [b"".join(chunks)[:4]], at)
    )
    file = await disk.create("a")
    file.append([b"abc", b"def", b"ghi"])
    assert file.read(0, 100) == b"abcdefghi"
    file.close()


async def test_append_goes_on_after_truncate_at_the_new_end(disk: SystemDisk) -> None:
    file = await disk.create("a")
    file.append([b"abcdef"])
    file.truncate(2)
    file.append([b"X", b"Y"])
    file.write_at(0, b"z")
    assert file.read(0, 10) == b"zbXY"
    file.close()


async def test_read_past_the_end_is_empty(disk: SystemDisk) -> None:
    file = await disk.create("a")
    file.append([b"abc"])
    assert (file.read(3, 10), file.read(99, 10), await file.read_cold(99, 1)) == (b"", b"", b"")
    file.close()


async def test_big_warm_read_spans_the_scratch_buffer(disk: SystemDisk) -> None:
    file = await disk.create("a")
    content = os.urandom(disk_module.WARM_READ_BYTES * 2 + 17)
    file.append([content])
    found = file.read(0, len(content))
    assert found is None or found == content
    assert await file.read_cold(0, len(content)) == content
    file.close()


async def test_read_that_would_wait_is_none_and_cold_read_has_it(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def would_wait(*_arguments: object) -> int:
        raise BlockingIOError

    file = await disk.create("a")
    file.append([b"abc"])
    monkeypatch.setattr(os, "preadv", would_wait)
    assert file.read(0, 3) is None
    assert await file.read_cold(0, 3) == b"abc"
    file.close()


async def test_a_cold_read_takes_from_the_device_what_is_asked_and_no_more(
    disk: SystemDisk, tmp_path: Path
) -> None:
    """Megabytes read ahead for a replay stand before every sync."""
    size, asked = 16 << 20, 1 << 20
    file = await disk.create("a")
    file.append([os.urandom(size)])
    await file.sync()
    descriptor = os.open(tmp_path / "data" / "a", os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    before = device_read_bytes()
    for position in range(0, 4 * asked, asked):
        assert file.read(position, asked) is None
        assert len(await file.read_cold(position, asked)) == asked
    assert 4 * asked <= device_read_bytes() - before < 4 * asked + (64 << 10)
    file.close()


def device_read_bytes() -> int:
    """Of this process, so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes")).split()[1])


async def test_file_system_without_nowait_reads_anyway(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_arguments: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(disk_module._nowait, "is_supported", True)
    monkeypatch.setattr(os, "preadv", unsupported)
    file = await disk.create("a")
    file.append([b"abc"])
    assert (file.read(0, 3), file.read(1, 3)) == (b"abc", b"bc")
    file.close()


async def test_create_refuses_an_existing_file_and_open_a_missing_one(disk: SystemDisk) -> None:
    (await disk.create("a")).close()
    with pytest.raises(FileExistsError):
        await disk.create("a")
    with pytest.raises(FileNotFoundError):
        disk.open("b")


async def test_replaced_file_is_the_new_one_and_leaves_nothing_beside_it(disk: SystemDisk) -> None:
    await disk.make_directory("d/e")
    await disk.replace_file("d/e/f", b"old")
    await disk.replace_file("d/e/f", b"new")
    assert (disk.read_file("d/e/f"), disk.list_directory("d/e")) == (b"new", ["f"])
    await disk.sync_directory("d/e")


async def test_tree_is_removed_and_missing_is_fine(disk: SystemDisk) -> None:
    await disk.make_directory("d/e")
    await disk.replace_file("d/e/f", b"")
    await disk.remove_tree("d")
    await disk.remove_tree("d")
    await disk.unlink("nothing")
    assert (disk.exists("d"), disk.list_directory("d")) == (False, [])


async def test_rename_replaces(disk: SystemDisk) -> None:
    await disk.replace_file("a", b"1")
    await disk.replace_file("b", b"2")
    disk.rename("a", "b")
    assert (disk.read_file("b"), disk.exists("a"), disk.is_directory("")) == (b"1", False, True)


async def test_close_during_a_cold_read_never_lets_its_descriptor_be_reused(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = asyncio.Event(), os.pipe()
    loop, real = asyncio.get_running_loop(), os.pread

    def slow(descriptor: int, size: int, position: int) -> bytes:
        loop.call_soon_threadsafe(started.set)
        os.read(release[0], 1)
        return real(descriptor, size, position)

    await disk.replace_file("a", b"mine")
    await disk.replace_file("b", b"other")
    file = disk.open("a")
    monkeypatch.setattr(os, "pread", slow)
    reading = asyncio.create_task(file.read_cold(0, 4))
    await started.wait()
    file.close()
    other = disk.open("b")
    os.write(release[1], b"x")
    assert await reading == b"mine"
    with pytest.raises(DiskFault):
        await file.read_cold(0, 4)
    other.close()
    os.close(release[0])
    os.close(release[1])


async def test_file_size_limit_is_a_full_disk_and_truncate_recovers(disk: SystemDisk) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = await disk.create("a")
    file.append([b"kept"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(DiskFull, match="free some space"):
            file.append([bytes(8_000), bytes(8_000)])
        assert file.size() == 10_000  # a prefix was written
        file.truncate(4)
        file.append([b"!"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read(0, 10) == b"kept!"
    file.close()


async def test_device_error_is_a_fault_with_the_path(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = await disk.create("a")
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(DiskFault, match=r"^a: Input/output error$") as caught:
        await file.sync()
    assert not isinstance(caught.value, DiskFull)
    file.close()


def test_second_process_is_told_who_holds_the_directory(disk: SystemDisk) -> None:
    disk.lock()
    script = f"""
        from broker.runtime.disk import SystemDisk
        SystemDisk({str(disk.root)!r}).lock()
    """
    second = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert f"is in use by process {os.getpid()}" in second.stderr
    assert second.returncode == 1


def test_lock_is_free_again_after_close(tmp_path: Path) -> None:
    for _ in range(2):
        disk = SystemDisk(tmp_path)
        disk.lock()
        disk.close()


def test_root_that_is_a_file_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(DiskFault, match="this is a file: choose a directory"):
        SystemDisk(tmp_path / "f")


def test_space_is_reported(disk: SystemDisk) -> None:
    assert 0 < disk.free_bytes() <= disk.total_bytes()


async def test_file_that_grows_fast_has_blocks_ahead_until_it_is_sealed(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writeback, "FREE_BYTES_MIN", 0)
    monkeypatch.setattr(writeback, "FAST_STEP_S", 60.0)  # however busy the machine is
    file = await disk.create("a")
    chunk = os.urandom(1 << 20)
    for _ in range(3 * STEP_BYTES // len(chunk)):
        file.append([chunk])
        await disk.run_writeback("a", lambda: None)  # the step that this append began
    assert held_bytes(disk, "a") >= file.size() + STEP_BYTES
    await file.seal()
    assert held_bytes(disk, "a") < file.size() + STEP_BYTES
    assert file.size() == disk.file_size("a") == 3 * STEP_BYTES
    assert file.read(file.size() - len(chunk), len(chunk)) == chunk
    file.close()


async def test_close_gives_back_what_was_set_aside(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writeback, "FREE_BYTES_MIN", 0)
    monkeypatch.setattr(writeback, "FAST_STEP_S", 60.0)  # however busy the machine is
    for name in range(AHEAD_FILES_MAX + 1):  # one more than may hold blocks at a time
        file = await disk.create(str(name))
        for _ in range(3):
            file.append([bytes(STEP_BYTES)])
            await disk.run_writeback("a", lambda: None)
        assert held_bytes(disk, str(name)) >= file.size() + STEP_BYTES
        file.close()
        assert held_bytes(disk, str(name)) < file.size() + STEP_BYTES


async def test_step_that_is_through_at_once_is_followed_by_the_next(tmp_path: Path) -> None:
    class QuickThread(WritebackThread):
        """Through before whoever asked goes on."""

        def run(self, function: Callable[[], None]) -> bool:
            self.executor.submit(function).result()
            return True

    steps = []
    thread = QuickThread()
    with (tmp_path / "a").open("wb") as file:

        def guard(function: Callable[..., None]) -> Callable[..., None]:
            def guarded(*arguments: object) -> None:
                steps.append(arguments[:2])
                function(file.fileno(), *arguments)

            return guarded

        early = Writeback(thread, guard, 0)
        early.note_append(STEP_BYTES)
        early.note_append(2 * STEP_BYTES)
    thread.close()
    assert steps == [(0, STEP_BYTES), (STEP_BYTES, STEP_BYTES)]


async def test_blocks_that_a_killed_process_set_aside_are_freed_by_the_next_opening(
    disk: SystemDisk,
) -> None:
    path = disk.root / "a"
    path.write_bytes(b"record")
    subprocess.run(["fallocate", "-n", "-o", "0", "-l", str(AHEAD_BYTES), path], check=True)
    assert held_bytes(disk, "a") >= AHEAD_BYTES
    file = disk.open("a")
    assert held_bytes(disk, "a") < STEP_BYTES
    assert file.read(0, 100) == b"record"
    file.close()


async def test_little_room_or_closed_file_costs_nothing_but_the_speed(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writeback, "FREE_BYTES_MIN", 1 << 62)
    file = await disk.create("a")
    for _ in range(4):
        file.append([bytes(STEP_BYTES)])
    file.close()  # with a step under way
    await disk.run_writeback("a", lambda: None)
    assert disk.file_size("a") == 4 * STEP_BYTES
    assert held_bytes(disk, "a") < 5 * STEP_BYTES


def held_bytes(disk: SystemDisk, path: str) -> int:
    """What the file takes of the device."""
    return (disk.root / path).stat().st_blocks * 512


async def test_threads_of_cold_reads_let_the_loop_run_first(disk: SystemDisk) -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert await disk.run_read(niceness) == READER_NICENESS > niceness()


async def test_what_is_written_once_more_stays_as_it_was(disk: SystemDisk) -> None:
    file = await disk.create("a")
    content = bytes(range(256)) * 10_000
    file.append([content])
    await file.rewrite(1_000)
    await file.rewrite(len(content))
    assert await file.read_cold(0, len(content) + 1) == content
    file.close()


async def test_a_sync_of_everything_works_where_the_kernel_tells_of_its_errors(
    disk: SystemDisk,
) -> None:
    assert not disk.has_sync_all, "it was not tried"
    await disk.try_sync_all()
    assert disk.has_sync_all == syncs_here(disk.root)
    if disk.has_sync_all:
        await disk.sync_all()


@pytest.mark.parametrize(("directory", "is_believed"), [("/dev/shm", True), ("/proc", False)])
def test_a_sync_of_everything_is_believed_of_file_systems_that_pass_it_on(
    directory: str, *, is_believed: bool
) -> None:
    assert syncs_here(Path(directory)) == (is_believed and has_honest_syncfs())


def test_overlayfs_is_not_believed_since_it_hides_errors_of_the_layer_below(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    mount = ["mount", "-t", "overlay", "overlay", "-o", layers, str(tmp_path / "merged")]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no overlayfs can be mounted here")
    try:
        assert not syncs_here(tmp_path / "merged")
    finally:
        subprocess.run(["umount", str(tmp_path / "merged")], check=True)


async def test_after_a_failed_sync_of_a_file_nothing_is_synced_as_a_whole_any_more(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system would tell of the error once more, for files that nothing happened to."""

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    await disk.try_sync_all()
    assert disk.has_sync_all == syncs_here(disk.root)
    file = await disk.create("a")
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(DiskFault, match="Input/output error"):
        await file.sync()
    file.close()
    assert not disk.has_sync_all
    await disk.try_sync_all()
    assert not disk.has_sync_all, "nor when it is tried again"


async def test_what_failed_before_the_start_keeps_syncs_of_everything_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells the first sync of this process, which is nobody's."""

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("broker.runtime.disk.is_syncfs_honest", lambda _descriptor: True)
    monkeypatch.setattr("broker.runtime.disk.sync_file_system", fail)
    disk = SystemDisk(tmp_path / "data")
    with pytest.raises(DiskFault, match="Input/output error"):
        await disk.try_sync_all()
    assert not disk.has_sync_all
    disk.close()


async def test_an_error_of_a_sync_of_everything_is_told_although_its_caller_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells of it once, to the call that nobody waits for any more."""
    may_end = threading.Event()
    failures = [OSError(errno.EIO, "Input/output error")]

    def sync(_descriptor: int) -> None:
        assert may_end.wait(20)
        if failures:
            raise failures.pop()

    monkeypatch.setattr("broker.runtime.disk.sync_file_system", sync)
    disk = SystemDisk(tmp_path / "data")
    caller = asyncio.ensure_future(disk.sync_all())
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_end.set()
    for _ in range(2):
        with pytest.raises(DiskFault, match="Input/output error"):
            await disk.sync_all()
    disk.close()


async def test_a_part_of_the_tree_on_another_file_system_is_not_reached_by_a_sync_of_everything(
    disk: SystemDisk, tmp_path: Path
) -> None:
    (await disk.create("here")).close()
    await disk.try_sync_all()
    assert disk.has_sync_all == syncs_here(disk.root)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        assert Path(elsewhere).stat().st_dev != tmp_path.stat().st_dev
        (disk.root / "moved").symlink_to(elsewhere)
        (await disk.create("moved/there")).close()
        assert not disk.has_sync_all


@pytest.mark.parametrize(
    ("release", "is_honest"),
    [("5.17.0-1-amd64", True), ("6.18.44", True), ("5.16.20", False), ("4.19.0", False)],
)
def test_only_a_kernel_that_tells_of_errors_syncs_everything(
    release: str, *, is_honest: bool
) -> None:
    assert has_honest_syncfs(release) == is_honest


async def test_one_failed_sync_of_a_file_fails_all_later_ones(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells of an error once and then says that all is well."""
    file = await disk.create("a")
    real, failures = os.fdatasync, [OSError(errno.EIO, "Input/output error")]

    def fdatasync(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    for _ in range(3):
        with pytest.raises(DiskFault, match="Input/output error"):
            await file.sync()
    file.close()


def test_a_mark_is_there_at_once_and_may_be_there_already(disk: SystemDisk) -> None:
    for _ in range(2):
        disk.mark("a")
        assert disk.file_size("a") == 0
    with pytest.raises(DiskFault):
        disk.mark("nowhere/a")


async def test_of_files_that_are_synced_together_each_tells_its_own_fault(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [await disk.create(name) for name in "abcdef"]
    for file in files:
        file.append([b"x"])
    real, inode = os.fdatasync, (disk.root / "c").stat().st_ino
    calls: list[int] = []

    def fdatasync(descriptor: int) -> None:
        calls.append(os.fstat(descriptor).st_ino)
        if calls[-1] == inode:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    for _ in range(2):
        faults = await disk.sync_files(files)
        assert [str(fault) for fault in faults if fault is not None] == ["c: Input/output error"]
        assert faults[2] is not None
    assert calls.count(inode) == 1, "the second sync would say that all is well"
    assert len(calls) == 2 * len(files) - 1
    for file in files:
        file.close()
