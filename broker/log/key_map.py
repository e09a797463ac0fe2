"""Which offset is the newest of each key, in a table of a size that is fixed when it is made.

Not here: keys (their digests stand for them), records. Open addressing with double hashing over a
prime number of slots. A digest has 128 bits: two keys with one digest would lose the older value,
which is as unlikely as for Apache Kafka's own map of this kind.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import Final

DIGEST_BYTES: Final = 16
SLOT_BYTES: Final = DIGEST_BYTES + 8
LOAD_MAX: Final = 0.75
"""Beyond this share of used slots a search takes too many steps."""
NO_KEY: Final = -1
_HALVES: Final = Struct("<QQ")


def digest_of(key: bytes) -> tuple[int, int]:
    """What stands for `key` in the table."""
    halves: tuple[int, int] = _HALVES.unpack(blake2b(key, digest_size=DIGEST_BYTES).digest())
    return halves


def capacity_of(buffer_bytes: int, record_count_max: int) -> int:
    """How many keys a table may hold: what fits in `buffer_bytes`, not more than there may be."""
    return max(1, min(int(buffer_bytes / SLOT_BYTES * LOAD_MAX), record_count_max))


class KeyMap:
    """Digest → offset, at most `capacity` of them."""

    __slots__ = ("_highs", "_lows", "_offsets", "_slot_count", "_used_count", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._slot_count = _prime_from(max(3, int(capacity / LOAD_MAX) + 1))
        self._used_count = 0
        # Zeroed memory that nobody wrote to takes no room.
        self._lows = memoryview(bytearray(8 * self._slot_count)).cast("Q")
        self._highs = memoryview(bytearray(8 * self._slot_count)).cast("Q")
        self._offsets = memoryview(bytearray(8 * self._slot_count)).cast("q")

    def __len__(self) -> int:
        return self._used_count

    def put(self, digest: tuple[int, int], offset: int) -> bool:
        """`offset` is the newest of this key from now on; False when the table has no room for
        another key.
        """
        slot = self._find(digest)
        if not self._offsets[slot]:
            if self._used_count >= self.capacity:
                return False
            self._used_count += 1
            self._lows[slot], self._highs[slot] = digest
        self._offsets[slot] = offset + 1
        return True

    def newest(self, digest: tuple[int, int]) -> int:
        """The key's newest offset, NO_KEY when it is not in the table."""
        return self._offsets[self._find(digest)] - 1

    def _find(self, digest: tuple[int, int]) -> int:
        """The key's slot, or the empty one where it belongs."""
        low, high = digest
        lows, highs, offsets, count = self._lows, self._highs, self._offsets, self._slot_count
        slot = low % count
        if not offsets[slot] or (lows[slot] == low and highs[slot] == high):
            return slot
        step = 1 + high % (count - 1)
        while offsets[slot] and not (lows[slot] == low and highs[slot] == high):
            slot = (slot + step) % count
        return slot


def _prime_from(number: int) -> int:
    """The first prime at or above an odd or even `number` of 3 or more."""
    candidate = number | 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate += 2
    return candidate
