"""Which partition of `__consumer_offsets` holds a group: Kafka's rule, so that a log means the same
everywhere.
"""

from __future__ import annotations

_INT32_MIN = -(2**31)


def partition_of(group_id: str, partition_count: int) -> int:
    """abs(Java's String.hashCode) modulo the count; the one hash without an absolute value counts
    as 0.
    """
    code = java_string_hash(group_id)
    return 0 if code == _INT32_MIN else abs(code) % partition_count


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: a polynomial in 31 over UTF-16 code units, wrapped to int32."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - 2**32 if code >= 2**31 else code
