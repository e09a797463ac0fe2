"""A client's batch in the codec that its topic wants (`compression.type` other than producer).

Not here: whether the batch is valid; what is damaged or misshapen comes back as it was and is
refused where batches are validated. Offsets, sequences, timestamps and attributes stay.
"""

from __future__ import annotations

from typing import Final

from broker.errors import ErrorCode, Refusal
from broker.records.batch import CODEC_MASK, HEADER_BYTES, is_intact, read_header
from broker.records.build import frame_batch
from broker.records.compression import CODEC_IDS
from broker.records.iterate import open_batch

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"
UNPACKED_BYTES_MAX: Final = 1_200_000
"""A batch that unpacks to more stays as it was sent: packing takes the event loop's time (gzip some
90 ms for this much), and two kilobytes can unpack to 64 MiB. Batches of clients with their defaults
hold less than 1 MiB.
"""


def stored_codec(compression_type: str) -> int | None:
    """The codec in which a topic keeps its batches; None: as they were sent."""
    if compression_type == PRODUCER:
        return None
    return 0 if compression_type == UNCOMPRESSED else CODEC_IDS[compression_type]


def recompress(batch: memoryview, codec: int) -> memoryview:
    """`batch` with its records in `codec`; itself when they are, when it is not intact, or when it
    unpacks to more than UNPACKED_BYTES_MAX.

    Raises Refusal: CORRUPT_MESSAGE when it does not unpack.
    """
    if len(batch) < HEADER_BYTES or not is_intact(batch):
        return batch
    header = read_header(batch)
    if header.attributes & CODEC_MASK == codec:
        return batch
    try:
        header, payload = open_batch(batch, UNPACKED_BYTES_MAX)
    except Refusal as refusal:
        if refusal.code is ErrorCode.MESSAGE_TOO_LARGE:
            return batch
        raise
    return memoryview(
        frame_batch(
            payload,
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            codec=codec,
            producer=(header.producer_id, header.producer_epoch, header.base_sequence),
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            attributes=header.attributes & ~CODEC_MASK,
        )
    )
