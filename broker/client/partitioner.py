"""Which partition a key belongs to: murmur2 as Java's clients compute it, so that every client
agrees.

Records without a key stay on one partition for a batch's worth of bytes, then move on at random.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from broker.ports import IdSource

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_ROTATION: Final = 24
_MASK: Final = 0xFFFFFFFF
_WORDS: Final = tuple(Struct(f"<{count}I") for count in range(65))
"""By how many words a key has; longer ones are rare."""
_IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"
_TOGETHER_MIN: Final = 16
_TOGETHER_MAX: Final = 256
_TOGETHER_BYTES_MAX: Final = 1_024
"""As many keys, of at most as many bytes, as it pays to hash together."""


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


def murmur2_partitions(keys: Sequence[bytes], partition_count: int) -> list[int]:
    """`murmur2_partition` of each of the keys, at a fifth of its cost where many are as long."""
    sizes = set(map(len, keys))
    if len(sizes) == 1:
        return _partitions_of_size(keys, sizes.pop(), partition_count)
    places: dict[int, list[int]] = {size: [] for size in sizes}
    for place, key in enumerate(keys):
        places[len(key)].append(place)
    found = [0] * len(keys)
    for size, same in places.items():
        partitions = _partitions_of_size([keys[place] for place in same], size, partition_count)
        for place, partition in zip(same, partitions, strict=True):
            found[place] = partition
    return found


def _partitions_of_size(keys: Sequence[bytes], size: int, partition_count: int) -> list[int]:
    is_alone = len(keys) < _TOGETHER_MIN or size > _TOGETHER_BYTES_MAX
    if is_alone or not _IS_LITTLE_ENDIAN:
        return [(murmur2(key) & 0x7FFFFFFF) % partition_count for key in keys]
    found: list[int] = []
    for begin in range(0, len(keys), _TOGETHER_MAX):
        hashes = _murmur2_together(keys[begin : begin + _TOGETHER_MAX], size)
        found += [(value & 0x7FFFFFFF) % partition_count for value in hashes]
    return found


def _murmur2_together(keys: Sequence[bytes], size: int) -> list[int]:
    """The hashes of keys of `size` bytes: one integer holds all of them, 64 bits apart, so that a
    step of the algorithm is one operation on it; products of 32 bits stay within their 64.
    """
    count = len(keys)
    rest = bytes(-size % 4)
    words = memoryview(rest.join(keys) + rest).cast("I")
    step = size + len(rest) >> 2
    each, mask = _lanes(count)
    multiplier = _MULTIPLIER
    lanes = bytearray(8 * count)
    lower = memoryview(lanes).cast("I")[::2]
    value = each * (_SEED ^ size)
    for place in range(size >> 2):
        lower[:] = words[place::step]
        mixed = int.from_bytes(lanes, "little") * multiplier & mask
        mixed = (mixed ^ mixed >> _ROTATION & mask) * multiplier
        value = (value * multiplier ^ mixed) & mask
    if rest:
        lower[:] = words[step - 1 :: step]
        value ^= int.from_bytes(lanes, "little")
        value = value * multiplier & mask
    value ^= value >> 13 & mask
    value = value * multiplier & mask
    value ^= value >> 15 & mask
    return memoryview(value.to_bytes(8 * count, "little")).cast("Q").tolist()


@lru_cache(_TOGETHER_MAX)
def _lanes(count: int) -> tuple[int, int]:
    """One in each of `count` 64-bit lanes, and the mask of their lower halves."""
    each = int.from_bytes(b"\x01\0\0\0\0\0\0\0" * count, "little")
    return each, each * _MASK


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
