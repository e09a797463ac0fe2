"""The one part of a consumer's metadata that the coordinator reads: the topics it subscribes to.

| offset | size | field                                       |
|--------|------|---------------------------------------------|
| 0      | 2    | int16 version                               |
| 2      | 4    | int32 count of topics, -1 = none            |
| 6      | …    | per topic int16 length, that many UTF-8 bytes |

What follows (user data, owned partitions, generation, rack) is not ours. Source:
ConsumerProtocolSubscription.
"""

from __future__ import annotations

import struct
from typing import Final

_HEAD: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")
TOPIC_BYTES_MIN: Final = 2


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription; None when the bytes are not one."""
    if len(metadata) < _HEAD.size:
        return None
    _version, count = _HEAD.unpack_from(metadata)
    position = _HEAD.size
    if count > (len(metadata) - position) // TOPIC_BYTES_MIN:
        return None
    topics: set[str] = set()
    for _ in range(count):
        if len(metadata) - position < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            return None
        try:
            topics.add(metadata[position : position + length].decode())
        except UnicodeDecodeError:
            return None
        position += length
    return frozenset(topics)
