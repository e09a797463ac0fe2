"""A file that is written past the page cache: what is durable, what fails how."""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.log.journal import BLOCK_BYTES as BLOCK
from broker.log.journal import RECORD_BYTES_MAX
from broker.ports import DiskFault, DiskFull
from broker.runtime import ring_file
from broker.runtime.disk import SystemDisk
from broker.runtime.ring_file import RING_BYTES, TRIAL_WRITES, SystemRing


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[SystemDisk]:
    made = SystemDisk(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
async def ring(disk: SystemDisk) -> AsyncIterator[SystemRing]:
    opened = await disk.open_ring("journal", 0)
    yield opened
    opened.close()


def content_of(disk: SystemDisk) -> bytes:
    return (disk.root / "journal").read_bytes()


async def write(ring: SystemRing, position: int, content: bytes) -> None:
    await ring.idle()
    ring.buffer[: len(content)] = content
    await ring.write(position, len(content))


async def test_a_write_stands_at_its_place_and_nowhere_else(
    disk: SystemDisk, ring: SystemRing
) -> None:
    assert (ring.size, len(ring.buffer)) == (RING_BYTES, RECORD_BYTES_MAX)
    assert content_of(disk) == bytes(RING_BYTES)
    await write(ring, 3 * BLOCK, b"a" * BLOCK)
    await write(ring, RING_BYTES - RECORD_BYTES_MAX, b"b" * RECORD_BYTES_MAX)
    await write(ring, 0, b"c" * BLOCK * 2)
    expected = bytearray(RING_BYTES)
    expected[3 * BLOCK : 4 * BLOCK] = b"a" * BLOCK
    expected[-RECORD_BYTES_MAX:] = b"b" * RECORD_BYTES_MAX
    expected[: 2 * BLOCK] = b"c" * BLOCK * 2
    assert content_of(disk) == expected


async def test_it_is_kept_when_it_is_opened_again_and_made_anew_with_another_size(
    disk: SystemDisk, ring: SystemRing
) -> None:
    await write(ring, BLOCK, b"a" * BLOCK)
    again = await disk.open_ring("journal", 0)
    again.close()
    again.close()
    assert content_of(disk)[BLOCK : 2 * BLOCK] == b"a" * BLOCK
    os.truncate(disk.root / "journal", 5 * BLOCK)
    (await disk.open_ring("journal", 0)).close()
    assert content_of(disk) == bytes(RING_BYTES)
    assert sorted(os.listdir(disk.root)) == ["journal"]


async def test_a_write_that_nobody_waits_for_any_more_is_over_before_the_next_begins(
    disk: SystemDisk, ring: SystemRing
) -> None:
    for number in range(50):
        first = asyncio.create_task(write(ring, BLOCK, b"a" * RECORD_BYTES_MAX))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await write(ring, BLOCK, bytes([number]) * RECORD_BYTES_MAX)
        assert (
            content_of(disk)[BLOCK : BLOCK + RECORD_BYTES_MAX] == bytes([number]) * RECORD_BYTES_MAX
        )


async def test_closing_while_it_is_written_leaves_no_descriptor(disk: SystemDisk) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        opened = await disk.open_ring("journal", 0)
        writing = asyncio.create_task(write(opened, BLOCK, b"a" * RECORD_BYTES_MAX))
        await asyncio.sleep(0)
        opened.close()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_write_that_the_system_refuses_is_a_fault(
    disk: SystemDisk, ring: SystemRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ring, "_descriptor", 999_999)
        with pytest.raises(DiskFault, match=os.strerror(errno.EBADF)):
            await write(ring, BLOCK, b"a" * BLOCK)
    await write(ring, BLOCK, b"b" * BLOCK)
    assert content_of(disk)[BLOCK : 2 * BLOCK] == b"b" * BLOCK


async def test_an_error_of_the_device_is_a_fault(
    ring: SystemRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel tells it: in the result of the write, here of one behind the file's limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(ring, "size", RING_BYTES * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (RING_BYTES, hard))
    try:
        with pytest.raises(DiskFault, match=os.strerror(errno.EFBIG)):
            await write(ring, RING_BYTES, b"a" * BLOCK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await write(ring, BLOCK, b"b" * BLOCK)


async def test_a_system_without_such_writes_is_told(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(DiskFault, match="no asynchronous writes"):
        await disk.open_ring("journal", 0)


async def test_a_disk_without_room_to_spare_has_none_and_one_that_is_there_needs_no_more(
    disk: SystemDisk,
) -> None:
    with pytest.raises(DiskFull, match="no room to spare"):
        await disk.open_ring("journal", disk.free_bytes())
    assert os.listdir(disk.root) == []
    (await disk.open_ring("journal", 0)).close()
    (await disk.open_ring("journal", disk.total_bytes())).close()


async def test_a_full_disk_leaves_nothing_of_it(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _content: bytes, _position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(ring_file.os, "pwrite", full)
        with pytest.raises(DiskFull):
            await disk.open_ring("journal", 0)
    assert os.listdir(disk.root) == []
    (await disk.open_ring("journal", 0)).close()


async def test_a_file_system_that_writes_in_the_call_is_found_out(
    ring: SystemRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop would stand still for every write of it."""
    real = ring._call

    def call(*arguments: object) -> int:
        result: int = real(*arguments)
        if arguments[0] is ring._submit:
            time.sleep(0.02)  # the write is over when the call returns
        return result

    monkeypatch.setattr(ring, "_call", call)
    for _ in range(TRIAL_WRITES - 1):
        await write(ring, BLOCK, b"a" * BLOCK)
    with pytest.raises(DiskFault, match="does not write asynchronously"):
        await write(ring, BLOCK, b"a" * BLOCK)
