"""A batch in another codec: the same records, offsets, sequences and times."""

from __future__ import annotations

import pytest

from broker.errors import ErrorCode, Refusal
from broker.records.batch import CODEC_MASK, HEADER_BYTES, is_intact, read_header, seal
from broker.records.build import build_batch
from broker.records.compression import CODECS
from broker.records.iterate import iterate_records
from broker.records.recompress import recompress, stored_codec

RECORDS = [(b"k%d" % i, b"value " * 20) for i in range(50)]


def batch_in(codec: str) -> memoryview:
    return memoryview(build_batch(RECORDS, timestamp_ms=1_700_000_000_000, compression=codec))


@pytest.mark.parametrize("sent", CODECS)
@pytest.mark.parametrize("stored", range(len(CODECS)))
def test_records_and_header_stay_and_the_codec_is_the_wanted_one(sent: str, stored: int) -> None:
    batch = batch_in(sent)
    packed = recompress(batch, stored)
    assert is_intact(packed)
    before, after = read_header(batch), read_header(packed)
    assert after.attributes & CODEC_MASK == stored
    kept = before._replace(
        batch_length=after.batch_length, crc=after.crc, attributes=after.attributes
    )
    assert after == kept
    assert list(iterate_records(packed)) == list(iterate_records(batch))


def test_a_batch_in_the_wanted_codec_is_not_touched() -> None:
    batch = batch_in("lz4")
    assert recompress(batch, CODECS.index("lz4")) is batch


def test_a_damaged_batch_comes_back_as_it_was_for_validation_to_refuse() -> None:
    damaged = bytearray(batch_in("gzip"))
    damaged[-1] ^= 1
    view = memoryview(damaged)
    assert recompress(view, 0) is view
    short = view[: HEADER_BYTES - 1]
    assert recompress(short, 0) is short


def test_what_does_not_unpack_is_refused() -> None:
    lying = bytearray(batch_in("gzip"))
    lying[HEADER_BYTES] ^= 0xFF
    seal(lying)
    with pytest.raises(Refusal) as refused:
        recompress(memoryview(lying), 0)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_what_unpacks_to_a_multiple_of_itself_stays_as_it_was_sent() -> None:
    bomb = memoryview(build_batch([(None, bytes(8_000_000))], timestamp_ms=1, compression="zstd"))
    assert len(bomb) < 10_000
    assert recompress(bomb, CODECS.index("gzip")) is bomb
    large = [(None, bytes(1_048_000))]
    usual = memoryview(build_batch(large, timestamp_ms=1, compression="none"))
    packed = recompress(usual, CODECS.index("lz4"))
    assert read_header(packed).attributes & CODEC_MASK == CODECS.index("lz4")


def test_the_values_of_the_setting() -> None:
    assert stored_codec("producer") is None
    assert [stored_codec(name) for name in ("uncompressed", "gzip", "zstd")] == [0, 1, 4]
