"""A file that is written past the page cache without a thread: `ports.RingFile`, by Linux's AIO.

One write (O_DIRECT, O_DSYNC) goes to the device while the loop goes on; an eventfd tells that it is
durable. Its blocks were written before, so nothing but them has to reach the device; what that
saves says decision 024. Where a system lacks any of it, `open_ring` refuses.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import mmap
import os
import platform
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

from broker.log.journal import BLOCK_BYTES, RECORD_BYTES_MAX
from broker.ports import DiskFault

RING_BYTES: Final = 32 * 1024 * 1024
"""Two halves of 16 MiB; a 32nd of one is enough to leave it (`server.journal_halves`)."""
TRIAL_WRITES: Final = 32
"""The first ones show whether writes are asynchronous here."""
WAITING_S: Final = 0.0002
"""A call that took so long, and whose write is over then, was the write."""
_FILL_BYTES: Final = 1 << 20

_NUMBERS: Final = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""Of io_setup, io_destroy, io_getevents and io_submit: the C library has no names for them."""
_CONTROL_BLOCK: Final = Struct("=QIIHhIQQqQII")
_EVENT: Final = Struct("=QQqq")
_WRITE: Final = 1  # IOCB_CMD_PWRITE
_TELL: Final = 1  # IOCB_FLAG_RESFD: by an eventfd


class SystemRing:
    """Implements `ports.RingFile`. Made and used on one loop."""

    def __init__(self, path: str, file: Path) -> None:
        """`file` has its size. Raises OSError."""
        numbers = _NUMBERS.get(platform.machine())
        flags = getattr(os, "O_DIRECT", 0)
        is_64_bit = sys.maxsize > 2**32  # the numbers are those of 64-bit processes
        if numbers is None or not is_64_bit or not flags or not hasattr(os, "eventfd"):
            raise OSError(errno.ENOTSUP, "no asynchronous writes on this system")
        self._path = path
        _, self._destroy, self._get, self._submit = map(ctypes.c_long, numbers)
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        self._memory = mmap.mmap(-1, RECORD_BYTES_MAX)
        self._buffer = memoryview(self._memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._address = address
        self._control = ctypes.create_string_buffer(_CONTROL_BLOCK.size)
        self._pointer = ctypes.pointer(ctypes.pointer(self._control))
        self._event = ctypes.create_string_buffer(_EVENT.size)
        self._no_time = ctypes.create_string_buffer(16)
        self._one = ctypes.c_long(1)
        self._written: asyncio.Future[int] | None = None
        self._is_busy = False
        self._write_count = self._waiting_count = 0
        self._descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_DSYNC | flags)
        try:
            self.size = os.fstat(self._descriptor).st_size
            self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            os.close(self._descriptor)
            raise
        try:
            self._ask(ctypes.c_long(numbers[0]), self._one, ctypes.byref(self._context))
        except OSError:
            os.close(self._descriptor)
            os.close(self._eventfd)
            raise
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._eventfd, self._on_written)

    @property
    def buffer(self) -> memoryview:
        return self._buffer

    async def idle(self) -> None:
        if self._is_busy:  # whoever began it has given up waiting
            self._written = self._loop.create_future()
            await self._written

    async def write(self, position: int, size: int) -> None:
        await self.idle()
        assert position % BLOCK_BYTES == size % BLOCK_BYTES == 0, "whole blocks"
        assert size <= RECORD_BYTES_MAX, "what the buffer holds"
        assert position + size <= self.size, "inside the file"
        _CONTROL_BLOCK.pack_into(
            self._control, 0, 0, 0, 0, _WRITE, 0, self._descriptor,
            self._address, size, position, 0, _TELL, self._eventfd,
        )  # fmt: skip
        self._written = written = self._loop.create_future()
        self._is_busy = True
        began_s = time.perf_counter()
        try:
            self._ask(self._submit, self._context, self._one, self._pointer)
        except OSError as error:
            self._is_busy = False
            raise DiskFault(self._path, error.strerror or str(error)) from error
        if self._write_count < TRIAL_WRITES:
            self._try(time.perf_counter() - began_s)
        result = await written
        if result != size:
            reason = os.strerror(-result) if result < 0 else f"{result} of {size} bytes written"
            raise DiskFault(self._path, reason)

    def close(self) -> None:
        """Closing twice is fine. What is under way goes on."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        self._loop.remove_reader(self._eventfd)
        os.close(self._eventfd)
        os.close(descriptor)
        with suppress(RuntimeError):  # no thread can be begun: the end of the process does it
            threading.Thread(target=self._end, name="ring-close", daemon=True).start()

    def _end(self) -> None:
        """In a thread: it waits for a write that is under way, whose memory stays until then."""
        with suppress(OSError):
            self._ask(self._destroy, self._context)

    def _try(self, elapsed_s: float) -> None:
        """One of the first writes: count it when the call was the write. Some file systems do that,
        and the loop would stand still for every write.
        """
        self._write_count += 1
        if elapsed_s >= WAITING_S and self._take_result():
            self._waiting_count += 1
        if self._write_count == TRIAL_WRITES and self._waiting_count > TRIAL_WRITES // 2:
            raise DiskFault(self._path, "its file system does not write asynchronously")

    def _on_written(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._eventfd)
        self._take_result()

    def _take_result(self) -> bool:
        """Whether the write is over."""
        nothing = ctypes.c_long(0)
        try:
            found = self._ask(
                self._get, self._context, nothing, self._one, self._event, self._no_time
            )
        except InterruptedError:  # nothing is there, and a signal is
            return False
        if not found:
            return False
        self._is_busy = False
        written = self._written
        if written is not None and not written.done():  # nobody gave it up
            written.set_result(_EVENT.unpack(self._event)[2])
        return True

    def _ask(self, *arguments: object) -> int:
        result: int = self._call(*arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def fill_ring(path: Path, spare_bytes: int) -> None:
    """In a thread: zeros to the end, durable; what was there is gone. Raises OSError, also when
    less than `spare_bytes`, or than another ring, would be left.
    """
    found = os.statvfs(path.parent)
    if found.f_bavail * found.f_frsize < RING_BYTES + max(spare_bytes, RING_BYTES):
        raise OSError(errno.ENOSPC, "there is no room to spare for it")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            zeros = bytes(_FILL_BYTES)
            position = 0
            while position < RING_BYTES:
                left = min(_FILL_BYTES, RING_BYTES - position)
                position += os.pwrite(descriptor, zeros[:left], position)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
