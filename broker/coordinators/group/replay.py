"""From a shard's log to its state: first the newest value of each key, then what those values mean.

Replaying only the newest values gives the state that replaying everything would give, because a
record's key names exactly what it changes; so a log that was not cleaned for a while costs little
more than a walk over its bytes. The walk is written out here for uncompressed batches, which is
how shards are written: one commit in a batch of its own is common, and 10^6 of them must not take
seconds. Other batches take the general way (records.iterate).
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordinators.group.records import from_log
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode, Refusal
from broker.records.batch import CODEC_MASK, HEADER, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC
from broker.records.iterate import iterate_records, read_varint


class Replay:
    """`add` or `add_batches` the log in order, then run `records_applied` to its end."""

    __slots__ = ("_newest", "shard")

    def __init__(self) -> None:
        self.shard = GroupShard()
        self._newest: dict[bytes, bytes] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """An entry without a key is nobody's; one without a value removes its key."""
        if key is None:
            return
        if value is None:
            self._newest.pop(key, None)
        else:
            self._newest[key] = value

    def add_batches(self, records: memoryview, position: int, size_max: int) -> int:
        """Add whole batches from `position` on, some `size_max` bytes of them; where to go on.

        Raises Refusal (CORRUPT_MESSAGE) for bytes that are no batches.
        """
        stop = min(position + size_max, len(records))
        while position < stop:
            position = self._add_batch(records, position)
        return position

    def _add_batch(self, records: memoryview, position: int) -> int:
        if len(records) - position < HEADER_BYTES:
            raise _corrupt(f"{len(records) - position} bytes are left of a batch")
        header = HEADER.unpack_from(records, position)
        end: int = position + header[1] + LENGTH_OVERHEAD
        if header[3] != MAGIC or not position + HEADER_BYTES <= end <= len(records):
            raise _corrupt(f"no batch begins at byte {position}")
        if header[5] & CODEC_MASK:
            for record in iterate_records(records[position:end]):
                self.add(record.key, record.value)
        else:
            payload = bytes(records[position + HEADER_BYTES : end])
            self._add_payload(payload, header[-1])
        return end

    def _add_payload(self, payload: bytes, record_count: int) -> None:
        """Each record: size, attributes, timestamp delta, offset delta, key, value, headers."""
        position, limit = 0, len(payload)
        for _ in range(record_count):
            size, position = read_varint(payload, position, limit)
            end = position + size
            if size < 0 or end > limit:
                raise _corrupt(f"a record of {size} bytes does not fit in its batch")
            _, position = read_varint(payload, position + 1, end)
            _, position = read_varint(payload, position, end)
            key_size, position = read_varint(payload, position, end)
            key_end = position + max(key_size, 0)
            value_size, value_start = read_varint(payload, key_end, end)
            value_end = value_start + max(value_size, 0)
            if value_end > end:
                raise _corrupt("a key or value does not fit in its record")
            if key_size >= 0:
                value = payload[value_start:value_end] if value_size >= 0 else None
                self.add(payload[position:key_end], value)
            position = end

    def records_applied(self) -> Iterator[int]:
        """Apply one by one, yielding the count so far.

        Raises MalformedMessage for a record that does not parse.
        """
        for count, (key, value) in enumerate(self._newest.items(), start=1):
            record = from_log(key, value)
            if record is not None:
                self.shard.apply(record)
            yield count
        self._newest.clear()


def _corrupt(reason: str) -> Refusal:
    return Refusal(ErrorCode.CORRUPT_MESSAGE, reason)
