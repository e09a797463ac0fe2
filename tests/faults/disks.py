"""Small disks of their own for a broker: ext4 in an image that can lose its power, and tmpfs.

Both need root. Whatever happens inside, the mount and its loop device are gone afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

EXT4_IOC_SHUTDOWN: Final = 0x8004587D
NO_LOG_FLUSH: Final = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal's open transaction reaches the disk."""
COMMIT_S: Final = 300
"""The journal commits by itself this rarely: names live by the broker's own syncs."""
UNMOUNT_S: Final = 20


class Ext4Disk:
    """As a context manager: mounted inside at `path`, unmounted and removed afterwards."""

    def __init__(self, directory: Path, *, megabytes: int = 64, reserved_percent: int = 0) -> None:
        self.path = directory / "disk"
        self._image = directory / "disk.img"
        self._megabytes = megabytes
        self._reserved_percent = reserved_percent

    def __enter__(self) -> Ext4Disk:
        with self._image.open("wb") as image:
            image.truncate(self._megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", str(self._reserved_percent), str(self._image))
        self.path.mkdir()
        self._mount()
        return self

    def __exit__(self, *_exception: object) -> None:
        unmount(self.path)
        self._image.unlink()

    def stop(self) -> None:
        """The power goes: nothing that was not synced reaches the disk, every later call fails."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def begin(self) -> None:
        """The power is back. Nobody may have a file open there."""
        unmount(self.path)
        self._mount()

    def _mount(self) -> None:
        options = f"loop,commit={COMMIT_S},noatime"
        _run("mount", "-t", "ext4", "-o", options, str(self._image), str(self.path))


@contextmanager
def tmpfs(directory: Path, *, megabytes: int) -> Iterator[Path]:
    """A file system in memory with so much room."""
    mount = directory / "small"
    mount.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(mount))
    try:
        yield mount
    finally:
        unmount(mount)


def fill(path: Path, *, leave: int = 0) -> None:
    """Writes until no byte more fits, or until `leave` bytes are free, to the given file."""
    with path.open("wb", buffering=0) as file:
        if leave:
            found = os.statvfs(path.parent)
            rest = found.f_bavail * found.f_frsize - leave
            os.posix_fallocate(file.fileno(), 0, max(1, rest))
            return
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


def unmount(path: Path) -> None:
    """At once, or lazily when a process that was killed still holds a file. Its loop device goes
    with the mount.
    """
    deadline = time.monotonic() + UNMOUNT_S
    while subprocess.run(["umount", str(path)], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            _run("umount", "-l", str(path))
            raise AssertionError(f"{path} is still in use; it was unmounted lazily")
        time.sleep(0.02)


def _run(*command: str) -> None:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{' '.join(command)} (as root): {done.stderr.strip()}"
