"""Batches against two outside implementations, in both directions and every codec; and bombs."""

from __future__ import annotations

import tracemalloc
import zlib
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import zstandard
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from broker.errors import ErrorCode, Refusal
from broker.records.batch import BatchRules, validate_batch
from broker.records.build import NewRecord, build_batch
from broker.records.compression import CODECS, compress, decompress
from broker.records.iterate import iterate_batches, iterate_records

TIMESTAMP = 1_700_000_000_000
BUILDERS = (AiokafkaBuilder, KafkaPythonBuilder)
BATCHES = (AiokafkaBatch, KafkaPythonBatch)

texts = st.text(max_size=10)
blobs = st.none() | st.binary(max_size=60)
new_records = st.builds(
    NewRecord,
    blobs,
    blobs,
    st.lists(st.tuples(texts, blobs), max_size=3),
    st.integers(0, 2**48),
    st.none(),
)


@pytest.mark.parametrize("codec", CODECS)
@given(records=st.lists(new_records, min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_other_clients_read_what_we_build(codec: str, records: list[NewRecord]) -> None:
    batch = build_batch(records, timestamp_ms=TIMESTAMP, compression=codec, base_offset=42)
    wanted = [
        (42 + place, record.timestamp_ms, record.key, record.value, list(record.headers))
        for place, record in enumerate(records)
    ]
    for reader in BATCHES:
        theirs = reader(bytes(batch))
        assert theirs.validate_crc()
        assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == wanted
    ours = [(*record[:4], list(record.headers)) for record in iterate_records(batch)]
    assert ours == wanted


@pytest.mark.parametrize("builder_type", BUILDERS)
@pytest.mark.parametrize("codec", range(len(CODECS)))
def test_we_read_what_other_clients_build(builder_type: type, codec: int) -> None:
    builder = builder_type(2, codec, 0, 9, 3, 17, 1_000_000)
    wanted = []
    for place in range(50):
        headers = [("h", b"x"), ("empty", b"")] if place % 3 else []
        key, value = (None if place % 7 == 0 else b"key%d" % place), b"value" * place
        assert builder.append(
            place, timestamp=TIMESTAMP + place, key=key, value=value, headers=headers
        )
        wanted.append((place, TIMESTAMP + place, key, value, tuple(headers)))
    batch = bytearray(builder.build())
    fields = validate_batch(memoryview(batch), BatchRules(10**6), now_wall_ms=TIMESTAMP)
    assert fields[8:] == (TIMESTAMP + 49, 9, 3, 17, 50)
    assert [tuple(record) for record in iterate_records(batch)] == wanted


def test_raw_and_framed_snappy_are_both_read() -> None:
    payload = b"snappy" * 20_000
    assert decompress(2, compress(2, payload), len(payload)) == payload
    assert decompress(2, bytes(cramjam.snappy.compress_raw(payload)), len(payload)) == payload


def test_concatenated_frames_are_read_to_the_end() -> None:
    first, second = b"a" * 1000, b"b" * 1000
    for codec in (1, 3, 4):
        joined = compress(codec, first) + compress(codec, second)
        assert decompress(codec, joined, 2000) == first + second


def test_zstd_without_a_content_size_is_read() -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = packer.compress(b"z" * 5000) + packer.flush()
    assert decompress(4, packed, 5000) == b"z" * 5000


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_bomb_is_refused_without_unpacking_it(codec: int) -> None:
    bomb = {
        1: lambda raw: zlib.compress(raw, wbits=31),
        2: lambda raw: bytes(cramjam.snappy.compress_raw(raw)),
        3: lz4.frame.compress,
        4: lambda raw: zstandard.ZstdCompressor(level=3).compress(raw),
    }[codec](bytes(64 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(Refusal) as refused:
            decompress(codec, bomb, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert peak < 20_000_000


@pytest.mark.parametrize("codec", range(5))
def test_exactly_the_limit_is_allowed_and_one_more_byte_is_not(codec: int) -> None:
    packed = compress(codec, bytes(range(256)) * 40)
    assert len(decompress(codec, packed, 10_240)) == 10_240
    with pytest.raises(Refusal) as refused:
        decompress(codec, packed, 10_239)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", range(-1, 9))
@given(content=st.binary(max_size=300))
@settings(max_examples=40, deadline=None)
def test_random_bytes_unpack_or_are_refused(codec: int, content: bytes) -> None:
    with suppress(Refusal):
        assert len(decompress(codec, content, 5000)) <= 5000


@given(
    codec=st.sampled_from(CODECS),
    records=st.lists(new_records, min_size=1, max_size=5),
    changes=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6
    ),
    cut=st.integers(0, 20),
)
@settings(max_examples=150, deadline=None)
def test_mutated_batches_yield_records_or_a_refusal(
    codec: str, records: list[NewRecord], changes: list[tuple[int, int]], cut: int
) -> None:
    batch = build_batch(records, timestamp_ms=TIMESTAMP, compression=codec)
    for position, value in changes:
        batch[position % len(batch)] = value
    del batch[len(batch) - cut :]
    with suppress(Refusal):
        for one in iterate_batches(batch):
            list(iterate_records(one, size_max=100_000))
    with suppress(Refusal):
        list(iterate_records(batch, size_max=100_000))


@given(st.binary(max_size=400), st.integers(0, 2**31 - 1))
@settings(deadline=None)
def test_a_random_payload_under_a_good_header_yields_records_or_a_refusal(
    payload: bytes, count: int
) -> None:
    batch = build_batch([(b"k", b"v")], timestamp_ms=0)
    batch[61:] = payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    with suppress(Refusal):
        assert len(list(iterate_records(batch))) == count


def test_a_partial_last_batch_is_left_out() -> None:
    batch = build_batch([(b"k", b"v")], timestamp_ms=0)
    assert [bytes(one) for one in iterate_batches(bytes(batch) * 2 + batch[:-1])] == [batch, batch]


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    """A frame of several blocks: Java reads none whose blocks need the one before."""
    block_independence_bit = 0x20
    framed = compress(CODECS.index("lz4"), bytes(range(256)) * 2000)
    assert framed[4] & block_independence_bit
