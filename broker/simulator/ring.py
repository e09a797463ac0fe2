"""A simulated disk's file that is written past the page cache: the journal's."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from broker.log.journal import BLOCK_BYTES
from broker.simulator.inodes import Inode

if TYPE_CHECKING:
    from broker.simulator.disk import SimulatedDisk

RING_BYTES: Final = 40 * BLOCK_BYTES
"""So small that it is often full."""
RING_RECORD_BYTES: Final = 16 * BLOCK_BYTES
"""So little that a round may be too large for it."""


class SimulatedRing:
    """Implements `ports.RingFile`, more kindly than a device: a crash in a write leaves its first
    blocks or none, and a write that is cancelled ends.
    """

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self.size = len(inode.content)
        self.buffer = memoryview(bytearray(RING_RECORD_BYTES))

    async def write(self, position: int, size: int) -> None:
        content = bytes(self.buffer[:size])
        first = self._disk.image.random.randint(0, size // BLOCK_BYTES) * BLOCK_BYTES
        for begin, end in ((0, first), (first, size)):
            await self._disk.pause()
            self._disk.check_error(self._path)
            if self._disk.process.is_alive:
                self._inode.content[position + begin : position + end] = content[begin:end]
                self._inode.synced[position + begin : position + end] = content[begin:end]
                self._disk.image.note_change()
        self._disk.image.ring_writes += 1
        self._disk.loop.mix(zlib.crc32(content))

    async def idle(self) -> None:
        """A write that is cancelled ends here."""

    def close(self) -> None:
        """Nothing is kept open."""
