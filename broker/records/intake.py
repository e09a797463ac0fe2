"""A client's batch opened before it is stored: its records checked (`record.validation=full`)
and packed anew (`compression.type` other than producer).

Not here: what the rules for records are (`rules`). Unpacking is bounded, absolutely and as a
multiple of what was sent, so that neither memory nor time follows from what a few bytes claim.
What is small is done at once; for the rest `take_in_now` raises NeedsWorker, and `take_in` does the
same in the worker process. Offsets, sequences, timestamps and attributes stay.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.ports import Buffer
from broker.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    BatchFields,
    BatchRules,
    validate_batch,
)
from broker.records.build import frame_batch
from broker.records.compression import CODEC_IDS, CODECS, decompress
from broker.records.iterate import SEARCHED_RECORDS_MAX, UNPACKED_BYTES_DEFAULT_MAX
from broker.records.rules import (
    Meter,
    RecordRules,
    RecordsRefused,
    TooManySteps,
    check_records,
)

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

UNPACKED_RATIO_MAX: Final = 100
"""A batch may unpack to so many times its size …"""
UNPACKED_BYTES_FREE: Final = 2 << 20
"""… or to this, if that is more: batches of clients with their defaults hold less than 1 MiB."""
UNPACKED_BYTES_MAX: Final = UNPACKED_BYTES_DEFAULT_MAX
RECORDS_MAX: Final = SEARCHED_RECORDS_MAX
"""Both are what the broker itself is ready to open later (lookups by time, compaction)."""
STEPS_MAX: Final = 1_000_000
"""Records and headers looked at in one batch, in the worker."""

STEPS_NOW_MAX: Final = 500
"""Records and headers of one batch looked at on the event loop (1 µs each): more goes to the
worker."""
UNPACKED_BYTES_NOW_MAX: Final = 256 << 10
"""Bytes unpacked on the event loop …"""
PLAIN_BYTES_NOW_MAX: Final = 2 << 20
"""… and of a batch that is not compressed: to send them to the worker would take as long."""
PACKED_BYTES_NOW_MAX: Final = (256 << 10, 32 << 10, 256 << 10, 256 << 10, 128 << 10)
"""Bytes packed anew on the event loop, by codec id: none takes more than 1 ms."""
UNPACKED_BYTES_PER_STEP: Final = 400
PLAIN_BYTES_PER_STEP: Final = 10_000
PACKED_BYTES_PER_STEP: Final = (20_000, 40, 800, 800, 300)
"""Bytes in a microsecond, by codec id (gzip at its slower, for what hardly shrinks)."""


class NeedsWorker(Exception):
    """More work than one step of the event loop may be."""


class Intake(NamedTuple):
    """What a topic does with the inside of a client's batch. `records` None: they are not looked
    at; `codec` None: stored in the codec they came in.
    """

    batch: BatchRules
    records: RecordRules | None
    codec: int | None


def stored_codec(compression_type: str) -> int | None:
    """The codec in which a topic keeps its batches; None: as they were sent."""
    if compression_type == PRODUCER:
        return None
    return 0 if compression_type == UNCOMPRESSED else CODEC_IDS[compression_type]


def take_in_now(batch: memoryview, intake: Intake, now_wall_ms: int, meter: Meter) -> memoryview:
    """`batch` as it is to be stored: itself, or packed anew; `meter` counts the work, also of what
    is refused.

    Raises Refusal (also RecordsRefused), NeedsWorker: then nothing is known of its records yet, but
    its header and checksum are in order.
    """
    fields = validate_batch(batch, intake.batch, now_wall_ms=now_wall_ms)
    size = len(batch) - HEADER_BYTES
    meter.steps += 1
    codec = fields[5] & CODEC_MASK
    is_repacked = intake.codec not in (None, codec)
    if intake.records is None and not is_repacked:
        return batch
    limit = UNPACKED_BYTES_NOW_MAX if codec else PLAIN_BYTES_NOW_MAX
    if size > limit or fields[12] > STEPS_NOW_MAX:
        raise NeedsWorker
    try:
        payload = decompress(codec, batch[HEADER_BYTES:], limit)
    except Refusal as refusal:
        meter.steps += limit // UNPACKED_BYTES_PER_STEP  # at most
        if refusal.code is ErrorCode.MESSAGE_TOO_LARGE:
            raise NeedsWorker from None
        raise _not_unpacked(refusal, intake) from refusal
    meter.steps += len(payload) // (UNPACKED_BYTES_PER_STEP if codec else PLAIN_BYTES_PER_STEP)
    if is_repacked and len(payload) > PACKED_BYTES_NOW_MAX[intake.codec or 0]:
        raise NeedsWorker
    if intake.records is not None:
        try:
            _check(payload, fields, intake.records, intake.batch, now_wall_ms, STEPS_NOW_MAX, meter)
        except TooManySteps:
            raise NeedsWorker from None
    if not is_repacked:
        return batch
    meter.steps += len(payload) // PACKED_BYTES_PER_STEP[intake.codec or 0]
    return memoryview(_repack(payload, fields, intake.codec or 0))


def take_in(batch: Buffer, intake: Intake, now_wall_ms: int) -> bytearray | None:
    """The batch packed anew, None when it is to be stored as it is. Its header is in order.

    Raises Refusal (also RecordsRefused).
    """
    with memoryview(batch) as view:
        fields = validate_batch(view, intake.batch, now_wall_ms=now_wall_ms)
        if fields[12] > RECORDS_MAX:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch holds {fields[12]} records, at most {RECORDS_MAX} can be opened: "
                "send smaller batches",
            )
        codec = fields[5] & CODEC_MASK
        try:
            payload = decompress(codec, view[HEADER_BYTES:], _unpacked_limit(len(view)))
        except Refusal as refusal:
            raise _not_unpacked(refusal, intake) from refusal
    if intake.records is not None:
        try:
            _check(payload, fields, intake.records, intake.batch, now_wall_ms, STEPS_MAX, Meter())
        except TooManySteps:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch holds more than {STEPS_MAX} records and headers: send smaller batches",
            ) from None
    if intake.codec in (None, codec):
        return None
    return _repack(payload, fields, intake.codec or 0)


def _check(
    payload: bytes,
    fields: BatchFields,
    rules: RecordRules,
    batch_rules: BatchRules,
    now_wall_ms: int,
    steps_max: int,
    meter: Meter,
) -> None:
    check_records(
        payload,
        fields,
        rules,
        batch_rules,
        now_wall_ms=now_wall_ms,
        steps_max=steps_max,
        meter=meter,
    )


def _unpacked_limit(size: int) -> int:
    """How far a batch of `size` bytes may unpack."""
    return min(UNPACKED_BYTES_MAX, max(UNPACKED_BYTES_FREE, UNPACKED_RATIO_MAX * size))


def _not_unpacked(refusal: Refusal, intake: Intake) -> Refusal:
    """The same for the client. With an intact checksum the client itself sent what does not unpack:
    sending it again, as CORRUPT_MESSAGE asks, is no use.
    """
    if refusal.code is ErrorCode.MESSAGE_TOO_LARGE:
        words = (
            f"{refusal.message} ({UNPACKED_BYTES_MAX >> 20} MiB, or {UNPACKED_RATIO_MAX} times "
            "what was sent): send smaller or less compressed batches"
        )
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, words)
    if intake.records is None:
        return refusal
    return RecordsRefused(ErrorCode.INVALID_RECORD, refusal.message)


def _repack(payload: bytes, fields: BatchFields, codec: int) -> bytearray:
    assert 0 <= codec < len(CODECS), "a setting names a codec"
    return frame_batch(
        payload,
        record_count=fields[12],
        last_offset_delta=fields[6],
        base_timestamp=fields[7],
        max_timestamp=fields[8],
        codec=codec,
        producer=(fields[9], fields[10], fields[11]),
        base_offset=fields[0],
        leader_epoch=fields[2],
        attributes=fields[5] & ~CODEC_MASK,
    )
