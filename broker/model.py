"""The nouns every other module shares: identifiers and the coordinates of a record.

Not here: behaviour, state, I/O. This module imports nothing of the broker.
"""

from __future__ import annotations

import binascii
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
"""Node id, 0 or above."""
Offset = NewType("Offset", int)
"""Logical position of a record in its partition, 0-based."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Raised at every change of leader and for every new incarnation of one, 0 or above."""
TopicId = NewType("TopicId", bytes)
"""16 raw bytes, random (UUID version 4), never reused; `NO_TOPIC_ID` means absent."""

NO_TOPIC_ID: Final = TopicId(bytes(16))
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class AppendResult(NamedTuple):
    """Where a batch landed.

    `base_offset` and `last_offset` (inclusive) are the batch's offsets; `log_append_time_ms` is
    wall time in milliseconds, or -1 for a CreateTime topic; `log_start_offset` is the first offset
    still kept; `is_duplicate` says that the batch was in the log already and nothing was appended
    (the offsets are the original's).
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


def format_uuid(raw: bytes) -> str:
    """The 22-character URL-safe base64 form in which Kafka prints ids. `raw` has 16 bytes."""
    assert len(raw) == 16, "an id has 16 bytes"
    return binascii.b2a_base64(raw, newline=False).decode().rstrip("=").translate(_TO_URL_SAFE)


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a 22-character id as `format_uuid` writes it. Raises ValueError for anything
    else.
    """
    raw = binascii.a2b_base64(text.translate(_FROM_URL_SAFE) + "==", strict_mode=True)
    if len(raw) != 16 or format_uuid(raw) != text:
        msg = f"not a topic or cluster id: {text!r} (expected 22 characters of URL-safe base64)"
        raise ValueError(msg)
    return raw


_TO_URL_SAFE = str.maketrans("+/", "-_")
_FROM_URL_SAFE = str.maketrans("-_", "+/")
