"""Which partition a key belongs to: murmur2 as Java's clients compute it, so that every client
agrees.

Records without a key stay on one partition for a batch's worth of bytes, then move on at random.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from broker.ports import IdSource

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_ROTATION: Final = 24
_MASK: Final = 0xFFFFFFFF
_WORDS: Final = tuple(Struct(f"<{count}I") for count in range(65))
"""By how many words a key has; longer ones are rare."""


def murmur2(data: bytes) -> int:
    """The 32-bit hash of `data`, unsigned."""
    size = len(data)
    count = size >> 2
    value = (_SEED ^ size) & _MASK
    unpack = _WORDS[count].unpack_from if count < len(_WORDS) else Struct(f"<{count}I").unpack_from
    multiplier, mask = _MULTIPLIER, _MASK  # locals: this runs for every record with a key
    for word in unpack(data):
        mixed = word * multiplier & mask
        value = (value * multiplier ^ (mixed ^ mixed >> _ROTATION) * multiplier) & mask
    if size & 3:
        value ^= int.from_bytes(data[size & ~3 :], "little")
        value = value * multiplier & mask
    value ^= value >> 13
    value = value * _MULTIPLIER & _MASK
    return value ^ value >> 15


def murmur2_partition(key: bytes, partition_count: int) -> int:
    """Where Java's default partitioner puts `key`; there is at least one partition."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Where records without a key go: one partition per topic for `bytes_max` bytes."""

    def __init__(self, ids: IdSource, bytes_max: int) -> None:
        self._ids = ids
        self._bytes_max = bytes_max
        self._current: dict[str, tuple[int, int]] = {}  # topic -> (partition, bytes sent there)

    def partition(self, topic: str, partition_count: int, size: int) -> int:
        """The partition for a record of `size` bytes."""
        partition, sent = self._current.get(topic, (-1, 0))
        if not 0 <= partition < partition_count or sent >= self._bytes_max:
            partition, sent = self._ids.below(partition_count), 0
        self._current[topic] = (partition, sent + size)
        return partition
