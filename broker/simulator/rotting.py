"""What a bad disk does to files nobody writes any more: flipped bits, and index files of zeros.

Not here: when (`nemesis`). Only segments below every snapshot of their partition rot: what lies
behind one is scanned at a start, and damage there cannot be told from a write that was torn. A
flipped bit can be put right, as by an operator with a backup.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from broker.log import names
from broker.log.directory import TOPICS
from broker.log.snapshot import decode_snapshot
from broker.simulator.disk import DiskImage
from broker.simulator.inodes import Directory, Inode

FLIPS_MAX: Final = 3
"""Per call; each in another segment."""
INDEX_PROBABILITY: Final = 0.5
INTERNAL: Final = "__"


class Flip(NamedTuple):
    """One bit of a file."""

    inode: Inode
    position: int
    mask: int


class Rot:
    """Of one host's disk. `flip_count` and `index_count` say what was done so far."""

    def __init__(self, image: DiskImage, random: Random) -> None:
        self._image = image
        self._random = random
        self._flips: list[Flip] = []
        self.flip_count = 0
        self.index_count = 0

    def flip_bits(self) -> None:
        """In a few old segments of topics that are not internal."""
        inodes = [
            node
            for topic, directory in _partitions(self._image)
            for node in _old_segments(directory)
            if not topic.startswith(INTERNAL)
            and node.synced
            and all(flip.inode is not node for flip in self._flips)
        ]
        count = min(len(inodes), self._random.randint(1, FLIPS_MAX))
        for inode in self._random.sample(inodes, count):
            position = self._random.randrange(len(inode.synced))
            flip = Flip(inode, position, 1 << self._random.randrange(8))
            _apply(flip)
            self._flips.append(flip)
            self.flip_count += 1

    def repair(self) -> None:
        """Every bit is as it was."""
        for flip in self._flips:
            _apply(flip)
        self._flips.clear()

    def spoil_indexes(self) -> None:
        """Some index files are zeros, cut off, or gone."""
        for _topic, directory in _partitions(self._image):
            for name in sorted(directory.entries):
                node = directory.entries[name]
                is_index = name.endswith((names.INDEX, names.TIME_INDEX))
                if not is_index or not isinstance(node, Inode):
                    continue
                if self._random.random() < INDEX_PROBABILITY:
                    continue
                size = len(node.content)
                keep = self._random.choice((0, self._random.randint(0, size)))
                fill = bytes(self._random.choice((0, size - keep)))
                node.content = bytearray(node.content[:keep] + fill)
                node.synced = node.content[:]
                self.index_count += 1


def _apply(flip: Flip) -> None:
    inode, position, mask = flip
    if position < min(len(inode.content), len(inode.synced)):
        inode.content[position] ^= mask
        synced = bytearray(inode.synced)
        synced[position] ^= mask
        inode.synced = synced


def _partitions(image: DiskImage) -> Iterator[tuple[str, Directory]]:
    topics = image.find(TOPICS)
    if not isinstance(topics, Directory):
        return
    for topic, directory in sorted(topics.entries.items()):
        if isinstance(directory, Directory):
            for _, partition in sorted(directory.entries.items()):
                if isinstance(partition, Directory):
                    yield topic, partition


def _old_segments(directory: Directory) -> Iterator[Inode]:
    """Segments below every snapshot, whole on the device."""
    listing = names.sort_out(sorted(directory.entries))
    bases = []
    for offset in listing.snapshots:
        node = directory.entries[names.numbered(offset, names.SNAPSHOT)]
        snapshot = decode_snapshot(bytes(node.content)) if isinstance(node, Inode) else None
        bases.append(0 if snapshot is None else snapshot.segment_base)
    for base in listing.segments:
        node = directory.entries[names.numbered(base, names.LOG)]
        if bases and base < min(bases) and isinstance(node, Inode) and not node.is_dirty:
            yield node
