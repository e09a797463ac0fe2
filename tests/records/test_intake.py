"""A batch that is opened before it is stored: packed anew, its work bounded, on the loop or not."""

from __future__ import annotations

import pytest

from broker.errors import ErrorCode, Refusal
from broker.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    BatchRules,
    is_intact,
    read_header,
    seal,
)
from broker.records.build import build_batch
from broker.records.compression import CODECS
from broker.records.intake import (
    STEPS_NOW_MAX,
    Intake,
    NeedsWorker,
    stored_codec,
    take_in,
    take_in_now,
)
from broker.records.iterate import iterate_records
from broker.records.rules import Meter, RecordRules

NOW_MS = 1_700_000_000_000
RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k%d" % i, b"value " * 20) for i in range(50)]
RULES = RecordRules(1 << 20, 10, 1_000, is_key_required=False)
BATCH_RULES = BatchRules(8 << 20)
FULL = Intake(BATCH_RULES, RULES, None)


def packing(codec: str, rules: RecordRules | None = None) -> Intake:
    return Intake(BATCH_RULES, rules, CODECS.index(codec))


def batch_in(codec: str, records: list[tuple[bytes | None, bytes | None]] = RECORDS) -> memoryview:
    return memoryview(build_batch(records, timestamp_ms=NOW_MS, compression=codec))


def now(batch: memoryview, intake: Intake) -> memoryview:
    return take_in_now(batch, intake, NOW_MS, Meter())


def refusal_of(batch: memoryview, intake: Intake) -> Refusal:
    """What both ways say, which must be the same."""
    with pytest.raises(Refusal) as in_worker:
        take_in(batch, intake, NOW_MS)
    with pytest.raises((Refusal, NeedsWorker)) as on_loop:
        now(batch, intake)
    if isinstance(on_loop.value, Refusal):
        assert on_loop.value.code is in_worker.value.code
        assert on_loop.value.message == in_worker.value.message
    return in_worker.value


@pytest.mark.parametrize("sent", CODECS)
@pytest.mark.parametrize("stored", CODECS)
@pytest.mark.parametrize("rules", [None, RULES])
def test_records_and_header_stay_and_the_codec_is_the_wanted_one(
    sent: str, stored: str, rules: RecordRules | None
) -> None:
    batch, intake = batch_in(sent), packing(stored, rules)
    for packed in (now(batch, intake), memoryview(take_in(batch, intake, NOW_MS) or batch)):
        assert is_intact(packed)
        before, after = read_header(batch), read_header(packed)
        assert after.attributes & CODEC_MASK == CODECS.index(stored)
        kept = before._replace(
            batch_length=after.batch_length, crc=after.crc, attributes=after.attributes
        )
        assert after == kept
        assert list(iterate_records(packed)) == list(iterate_records(batch))


def test_a_batch_in_the_wanted_codec_is_not_touched() -> None:
    batch = batch_in("lz4")
    assert now(batch, packing("lz4")) is batch
    assert now(batch, FULL) is batch
    assert take_in(batch, FULL, NOW_MS) is None


def test_a_damaged_batch_is_refused_before_it_is_opened() -> None:
    damaged = bytearray(batch_in("gzip"))
    damaged[-1] ^= 1
    for intake in (packing("none"), FULL):
        assert refusal_of(memoryview(damaged), intake).code is ErrorCode.CORRUPT_MESSAGE
        short = memoryview(damaged)[: HEADER_BYTES - 1]
        assert refusal_of(short, intake).code is ErrorCode.CORRUPT_MESSAGE


def test_what_does_not_unpack_is_refused_for_good_where_the_records_are_checked() -> None:
    lying = bytearray(batch_in("gzip"))
    lying[HEADER_BYTES] ^= 0xFF
    seal(lying)
    assert refusal_of(memoryview(lying), packing("none")).code is ErrorCode.CORRUPT_MESSAGE
    assert refusal_of(memoryview(lying), FULL).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("intake", [FULL, packing("none")])
@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "snappy"])
def test_a_bomb_is_refused_by_ratio_and_by_size(codec: str, intake: Intake) -> None:
    bomb = batch_in(codec, [(b"k", bytes(65 << 20))])
    assert len(bomb) < 4 << 20
    refusal = refusal_of(bomb, intake)
    assert refusal.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "send smaller" in refusal.message


def test_what_clients_with_their_defaults_send_is_never_a_bomb() -> None:
    usual = batch_in("zstd", [(b"k", bytes(1_048_000))])
    assert len(usual) < 1_000
    assert take_in(usual, FULL, NOW_MS) is None
    packed = take_in(usual, packing("none", RULES), NOW_MS)
    assert packed is not None
    assert len(packed) > 1_048_000


def test_more_than_a_step_of_the_loop_goes_to_the_worker() -> None:
    many = batch_in("none", [(b"k", b"v")] * (STEPS_NOW_MAX + 1))
    big = batch_in("zstd", [(b"k", bytes(400_000))])
    slow = batch_in("none", [(b"k", bytes(40_000))])
    for batch, intake in ((many, FULL), (big, FULL), (slow, packing("gzip"))):
        with pytest.raises(NeedsWorker):
            now(batch, intake)
        take_in(batch, intake, NOW_MS)
    now(batch_in("none", [(b"k", b"v")] * STEPS_NOW_MAX), FULL)


def test_the_meter_counts_records_unpacking_and_what_is_refused() -> None:
    meter = Meter()
    take_in_now(batch_in("none"), FULL, NOW_MS, meter)
    assert 50 <= meter.steps < 80
    big = batch_in("zstd", [(b"k", bytes(250_000))])
    meter = Meter()
    take_in_now(big, FULL, NOW_MS, meter)
    assert meter.steps > 500
    meter = Meter()
    with pytest.raises(NeedsWorker):
        take_in_now(batch_in("zstd", [(b"k", bytes(400_000))]), FULL, NOW_MS, meter)
    assert meter.steps > 500


def test_the_values_of_the_setting() -> None:
    assert stored_codec("producer") is None
    assert [stored_codec(name) for name in ("uncompressed", "gzip", "zstd")] == [0, 1, 4]
