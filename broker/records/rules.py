"""What a topic with `record.validation=full` demands of the records inside a client's batch.

Not here: the batch's header (`batch`), unpacking (`intake`). Bytes are never trusted: every length
is checked before it is used, and the work is bounded (a step is a record or a header). What cannot
be read at all ends the look at once; of what breaks a rule the first RECORD_ERRORS_MAX records are
named, each by its index (KIP-467). One error code is for the whole batch: the first record's.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.model import INT64_MAX, NO_TIMESTAMP
from broker.records.batch import BatchFields, BatchRules
from broker.records.iterate import read_varint

RECORD_ERRORS_MAX: Final = 20
"""Records named in one refusal; the message says how many more there are at least."""

RecordErrors = tuple[tuple[int, str], ...]
"""(index in the batch, what is wrong with that record)."""


class RecordRules(NamedTuple):
    """Limits on single records, sizes in bytes. A record's size is all of it as it stands unpacked;
    its headers' size counts their keys and values.
    """

    record_bytes_max: int
    headers_max: int
    header_bytes_max: int
    is_key_required: bool


class RecordsRefused(Refusal):
    """A batch refused for records in it; `record_errors` names them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: RecordErrors = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[type[Refusal], tuple[object, ...]]:
        return type(self), (self.code, self.message, self.record_errors)


class TooManySteps(Exception):
    """The records take more work than was allowed; nothing is known of them yet."""


class Meter:
    """Work done, in steps of about a microsecond: one for a record or a header, more for what is
    unpacked and packed."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


_Fault = tuple[ErrorCode, str] | int
"""A broken rule: code and words, or a timestamp delta that may be one."""
_KEYLESS: Final = (ErrorCode.INVALID_RECORD, "it has no key, a compacted topic needs one")


class _Malformed(Exception):
    """The record's own words for what cannot be read."""


def check_records(
    payload: bytes,
    fields: BatchFields,
    rules: RecordRules,
    batch_rules: BatchRules,
    *,
    now_wall_ms: int,
    steps_max: int,
    meter: Meter,
) -> None:
    """Nothing, when `payload` (unpacked) holds exactly the records that the header announces and
    each of them is within the rules.

    Raises RecordsRefused: INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE; TooManySteps.
    """
    count = fields[12]
    steps_left = header_steps_max = steps_max - count
    if steps_left < 0:
        raise TooManySteps
    deltas = _timestamp_deltas(fields, batch_rules, now_wall_ms)
    position = index = fault_count = 0
    faults: list[tuple[int, ErrorCode, str]] = []
    try:
        while index < count:
            position, header_count, fault = _check_record(
                payload, position, index, rules, deltas, steps_left
            )
            steps_left -= header_count
            if fault is not None:
                found = _explain(fault, fields, batch_rules)
                if found is not None:
                    fault_count += 1
                    if len(faults) < RECORD_ERRORS_MAX:
                        faults.append((index, *found))
            index += 1
        if position != len(payload):
            raise _Malformed(f"{len(payload) - position} bytes follow the {count} records")
    except (_Malformed, Refusal, IndexError) as damage:
        raise _refuse_malformed(index, count, damage) from damage
    finally:
        meter.steps += index + header_steps_max - steps_left
    if faults:
        raise _refuse(faults, fault_count)


def _check_record(
    payload: bytes,
    position: int,
    index: int,
    rules: RecordRules,
    deltas: tuple[int, int],
    steps_left: int,
) -> tuple[int, int, _Fault | None]:
    """(where the next record begins, headers looked at, the first rule that it breaks): a timestamp
    delta that needs `_explain`, or a code with words. The usual one-byte varints are read in place.

    Raises _Malformed, Refusal, IndexError for what cannot be read; TooManySteps.
    """
    begin = position
    number = payload[position]
    if number < 0x80:
        length = (number >> 1) ^ -(number & 1)
        position += 1
    else:
        length, position = _read_long(payload, position)
    end = position + length
    if length < 0 or end > len(payload):
        raise _Malformed(f"its length is {length}, {len(payload) - position} bytes are left")
    number = payload[position + 1]
    if number < 0x80:
        delta = (number >> 1) ^ -(number & 1)
        position += 2
    else:
        delta, position = _read_long(payload, position + 1)
    if index < 64 and payload[position] == index << 1:  # one byte is all of it
        position += 1
    else:
        position = _skip_offset_delta(payload, position, index)
    number = payload[position]
    if number < 0x80 and not number & 1:
        position += 1 + (number >> 1)
        is_keyless = False
    else:
        key_size, position = _skip_nullable(payload, position)
        is_keyless = key_size < 0
    _value_size, position = _skip_nullable(payload, position)
    header_count, fault = 0, None
    if position + 1 != end or payload[position]:
        header_count, fault = _check_headers(payload, position, end, rules, steps_left)
    if not deltas[0] <= delta <= deltas[1]:
        fault = fault or delta
    if is_keyless and rules.is_key_required:
        fault = fault or _KEYLESS
    if end - begin > rules.record_bytes_max:
        fault = _oversized(end - begin, rules)
    return end, header_count, fault


def _check_headers(
    payload: bytes, position: int, end: int, rules: RecordRules, steps_left: int
) -> tuple[int, _Fault | None]:
    """(headers, the rule that they break) of a record. Raises _Malformed, TooManySteps. Of more
    headers than are allowed only the count is looked at.
    """
    count, position = read_varint(payload, position, end)
    if count < 0 or count * 2 > end - position:
        raise _Malformed(f"its {count} headers do not fit")
    if count > rules.headers_max:
        words = f"it has {count} headers, max.record.headers allows {rules.headers_max}"
        return 0, (ErrorCode.INVALID_RECORD, words)
    if count > steps_left:
        raise TooManySteps
    total = 0
    for _ in range(count):
        size, start = read_varint(payload, position, end)
        position = start + size
        if size < 0 or position > end:
            raise _Malformed(f"a header's key of {size} bytes does not fit")
        try:
            str(payload[start:position], "utf-8")
        except UnicodeDecodeError:
            raise _Malformed("a header's key is not UTF-8") from None
        value_size, position = _skip_nullable(payload, position)
        total += size + max(0, value_size)
    if position != end:
        raise _Malformed(f"{end - position} bytes follow its headers")
    if total > rules.header_bytes_max:
        words = (
            f"its headers have {total} bytes, "
            f"max.record.header.bytes allows {rules.header_bytes_max}"
        )
        return count, (ErrorCode.INVALID_RECORD, words)
    return count, None


def _skip_nullable(payload: bytes, position: int) -> tuple[int, int]:
    """(size or -1, position after the bytes, which the caller compares with the record's end).
    Raises _Malformed, IndexError.
    """
    number = payload[position]
    if number < 0x80:
        position += 1
        if not number & 1:
            return number >> 1, position + (number >> 1)
        size = ~(number >> 1)
    else:
        high = payload[position + 1]
        if high < 0x80 and not number & 1:
            size = (number & 0x7F | high << 7) >> 1
            return size, position + 2 + size
        size, position = _read_long(payload, position)
    if size < -1:
        raise _Malformed(f"it has a length of {size}")
    return size, position + max(0, size)


def _skip_offset_delta(payload: bytes, position: int, index: int) -> int:
    """The position after an offset delta that is `index`. Raises _Malformed, IndexError."""
    found, position = _read_long(payload, position)
    if found != index:
        raise _Malformed(f"its offset delta is {found}, expected {index}")
    return position


def _read_long(payload: bytes, position: int) -> tuple[int, int]:
    """`read_varint` for more than one byte; a record's end is checked by the caller."""
    number, high = payload[position], payload[position + 1]
    if number >= 0x80 > high:
        number = number & 0x7F | high << 7
        return (number >> 1) ^ -(number & 1), position + 2
    return read_varint(payload, position, len(payload))


def _timestamp_deltas(
    fields: BatchFields, batch_rules: BatchRules, now_wall_ms: int
) -> tuple[int, int]:
    """The least and the greatest delta that need no second look."""
    base = fields[7]
    if batch_rules.is_log_append_time:  # the broker's own time takes their place
        return -INT64_MAX - 1 - base, INT64_MAX - base
    lowest = max(0, now_wall_ms - batch_rules.timestamp_before_max_ms)
    return lowest - base, fields[8] - base


def _explain(
    fault: _Fault, fields: BatchFields, batch_rules: BatchRules
) -> tuple[ErrorCode, str] | None:
    """Code and words; None for a timestamp outside the usual range that says "no time"."""
    if isinstance(fault, tuple):
        return fault
    timestamp, latest = fields[7] + fault, fields[8]
    if batch_rules.is_log_append_time:
        return ErrorCode.INVALID_RECORD, f"its timestamp {timestamp} does not fit 64 bits"
    if timestamp == NO_TIMESTAMP:
        return None
    if timestamp > latest:
        words = f"its timestamp {timestamp} is after the batch's maxTimestamp {latest}"
        return ErrorCode.INVALID_RECORD, words
    if timestamp < NO_TIMESTAMP:
        return ErrorCode.INVALID_TIMESTAMP, f"its timestamp {timestamp} is negative"
    words = (
        f"its timestamp {timestamp} is more than {batch_rules.timestamp_before_max_ms} ms in the "
        "past (message.timestamp.before.max.ms)"
    )
    return ErrorCode.INVALID_TIMESTAMP, words


def _oversized(size: int, rules: RecordRules) -> tuple[ErrorCode, str]:
    words = f"it has {size} bytes unpacked, max.record.bytes allows {rules.record_bytes_max}"
    return ErrorCode.MESSAGE_TOO_LARGE, words


def _refuse(faults: list[tuple[int, ErrorCode, str]], fault_count: int) -> RecordsRefused:
    index, code, words = faults[0]
    more = f"; {fault_count - 1} more records are refused" if fault_count > 1 else ""
    return RecordsRefused(
        code,
        f"record {index}: {words}{more}; nothing of the batch was stored",
        tuple((index, words) for index, _code, words in faults),
    )


def _refuse_malformed(index: int, count: int, damage: Exception) -> RecordsRefused:
    words = "it is cut off" if isinstance(damage, IndexError) else str(damage)
    if index >= count:
        return RecordsRefused(ErrorCode.INVALID_RECORD, f"the batch's records do not fit: {words}")
    return RecordsRefused(
        ErrorCode.INVALID_RECORD,
        f"record {index} of {count} cannot be read: {words}; nothing of the batch was stored",
        ((index, words),),
    )
