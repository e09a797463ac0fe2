"""Idempotent producers: five batches, epochs, wrap-around, silence, restarts, deleted data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ErrorCode, Refusal
from broker.log.config import LogConfig
from broker.log.index import Times
from broker.log.producers import (
    REFUSED_MS_MAX,
    ProducerBatch,
    ProducerStates,
    last_sequence_of,
)
from broker.log.snapshot import Snapshot, decode_snapshot, encode_snapshot
from broker.model import INT32_MAX
from broker.ports import DiskFull
from broker.records.batch import HEADER_BYTES
from broker.records.build import build_batch
from tests.log.world import (
    NOW_MS,
    FaultyDisk,
    append,
    append_rolling,
    create,
    refusal_of,
    reopen,
    stage,
    values,
)

DAY_MS = 86_400_000


def produce(
    log: object, sequence: int, *records: str, epoch: int = 0, **options: object
) -> tuple[int, bool]:
    """(base offset, is duplicate) of a batch of producer 7."""
    result = append(
        log,
        *records,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        **options,  # type: ignore[arg-type]
    )
    return result.base_offset, result.is_duplicate


async def test_each_of_the_last_five_batches_is_answered_with_its_first_offset(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    for number in range(8):
        assert produce(log, number * 2, "a", "b") == (number * 2, False)
    for number in range(3, 8):
        assert produce(log, number * 2, "a", "b") == (number * 2, True)
    assert refusal_of(produce, log, 4, "a", "b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal_of(produce, log, 14, "a") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 16
    await log.close()


async def test_a_gap_is_refused_and_the_next_sequence_is_accepted(disk: FaultyDisk) -> None:
    log = await create(disk)
    produce(log, 0, "a")
    assert refusal_of(produce, log, 2, "c") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 1, "b") == (1, False)
    await log.close()


async def test_a_new_epoch_begins_at_zero_and_fences_the_old(disk: FaultyDisk) -> None:
    log = await create(disk)
    produce(log, 0, "a")
    assert refusal_of(produce, log, 1, "b", epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, "b", epoch=1) == (1, False)
    assert refusal_of(produce, log, 1, "c", epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(log, 0, "b", epoch=1) == (1, True)
    await log.close()


async def test_sequences_wrap_around(disk: FaultyDisk) -> None:
    log = await create(disk)
    assert produce(log, INT32_MAX - 1, "a", "b", "c") == (0, False)
    assert produce(log, 1, "d") == (3, False)
    assert produce(log, INT32_MAX - 1, "a", "b", "c") == (0, True)
    assert last_sequence_of(INT32_MAX, 0) == INT32_MAX
    assert last_sequence_of(INT32_MAX, 1) == 0
    await log.close()
    log = await reopen(disk)
    assert produce(log, INT32_MAX - 1, "a", "b", "c") == (0, True)
    assert produce(log, 2, "e") == (4, False)
    await log.close()


async def test_an_unknown_producer_may_begin_anywhere(disk: FaultyDisk) -> None:
    log = await create(disk)
    assert produce(log, 12345, "a") == (0, False)
    await log.close()


def begins(states: ProducerStates, sequence: int, *, epoch: int = 0, now_ms: int = NOW_MS) -> bool:
    """Whether a batch of producer 7, of one record, would be stored."""
    try:
        return states.find_duplicate(7, epoch, sequence, sequence, now_ms) is None
    except Refusal as refusal:
        if refusal.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise
        return False


def refuse(states: ProducerStates, sequence: int, *, epoch: int = 0, producer_id: int = 7) -> None:
    batch = build_batch(
        [(None, b"a")],
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    states.on_refused(batch, NOW_MS)


def test_an_unknown_producer_does_not_begin_behind_a_batch_that_was_refused() -> None:
    """Found by seed 944: librdkafka takes a later answer for a sign that the refused one is stored,
    and the Java client is refused its retry until its time is over.
    """
    states = ProducerStates(DAY_MS)
    refuse(states, 4)
    refuse(states, 6)
    assert [number for number in range(10) if begins(states, number)] == [0, 1, 2, 3, 4]
    assert begins(states, INT32_MAX)
    states.stage(7, 0, NOW_MS, ProducerBatch(4, 4, 0, 0, -1))
    assert begins(states, 5)
    assert not begins(states, 6)


def test_a_refused_batch_counts_for_its_epoch_and_for_a_while() -> None:
    states = ProducerStates(DAY_MS)
    refuse(states, 4, epoch=1)
    refuse(states, 2, epoch=0)
    assert not begins(states, 5, epoch=1)
    assert begins(states, 5, epoch=2)
    assert not begins(states, 5, epoch=1, now_ms=NOW_MS + REFUSED_MS_MAX)
    assert begins(states, 5, epoch=1, now_ms=NOW_MS + REFUSED_MS_MAX + 1)


def test_a_silent_producer_does_not_go_on_behind_a_batch_that_was_refused() -> None:
    states = ProducerStates(DAY_MS)
    states.replay(7, 0, NOW_MS - DAY_MS - 1, ProducerBatch(0, 0, 0, 0, -1))
    assert begins(states, 9)
    refuse(states, 1)
    assert not begins(states, 9)
    assert begins(states, 1)


def test_what_is_no_batch_of_a_producer_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.log.producers.REFUSED_MAX", 10)
    states = ProducerStates(DAY_MS)
    states.on_refused(b"", NOW_MS)
    states.on_refused(bytes(HEADER_BYTES), NOW_MS)
    refuse(states, -1, producer_id=-1)
    refuse(states, 0)
    assert not begins(states, 1)
    for producer_id in range(100, 110):
        refuse(states, 0, producer_id=producer_id)
    assert begins(states, 1)  # ten others were refused since


async def test_no_batch_overtakes_one_whose_write_failed(disk: FaultyDisk) -> None:
    log = await create(disk)
    options = {"producer_id": 7, "producer_epoch": 0}
    stage(log, "a", base_sequence=0, **options)
    stage(log, "b", base_sequence=1, **options)
    disk.fail_append = (0, DiskFull)
    with pytest.raises(DiskFull):
        log.flush()
    assert refusal_of(produce, log, 1, "b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal_of(produce, log, 2, "c") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, "a") == (0, False)
    assert produce(log, 1, "b") == (1, False)
    await log.close()


@pytest.mark.parametrize("is_clean", [True, False])
async def test_duplicates_are_known_after_a_restart(disk: FaultyDisk, *, is_clean: bool) -> None:
    log = await create(disk)
    for number in range(4):
        produce(log, number, "a")
    await log.checkpoint()
    for number in range(4, 7):
        produce(log, number, "a")
    if is_clean:
        await log.close()
    log = await reopen(disk)
    for number in range(2, 7):
        assert produce(log, number, "a") == (number, True)
    assert produce(log, 7, "a") == (7, False)
    await log.close()


async def test_silence_makes_a_producer_unknown(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig(producer_id_expiration_ms=DAY_MS))
    produce(log, 5, "a", epoch=3)
    assert refusal_of(produce, log, 9, "b", epoch=3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    late = NOW_MS + DAY_MS + 1
    assert produce(log, 9, "b", epoch=3, now_ms=late) == (1, False)
    await log.apply_retention(late + DAY_MS + 1)
    assert log.producers.entries == {}
    await log.close()


async def test_a_producer_outlives_its_records(disk: FaultyDisk) -> None:
    config = LogConfig(retention_ms=1000)
    log = await create(disk, config)
    for number in range(3):
        produce(log, number, "a")
    assert await log.apply_retention(NOW_MS + 2000) == 3
    assert await values(log) == []
    assert produce(log, 2, "a") == (2, True)
    assert produce(log, 3, "b") == (3, False)
    for _ in range(2):
        log = await reopen(disk, config)  # killed each time
        assert produce(log, 3, "b") == (3, True)
        assert refusal_of(produce, log, 9, "c") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await log.apply_retention(NOW_MS + 4000) == 4
    log = await reopen(disk, config)
    assert produce(log, 4, "c") == (4, False)
    await log.close()


async def test_a_batch_that_is_only_staged_is_a_duplicate_and_is_forgotten_with_a_failed_flush(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert not stage(log, "a", **options).is_duplicate
    assert stage(log, "a", **options).is_duplicate
    disk.fail_append = (0, DiskFull)
    with pytest.raises(DiskFull):
        log.flush()
    assert append(log, "a", **options).is_duplicate is False
    assert await values(log) == ["a"]
    await log.close()


async def test_no_segment_goes_before_a_snapshot_remembers_its_producers(disk: FaultyDisk) -> None:
    config = LogConfig(retention_ms=1000)
    log = await create(disk, config)
    produce(log, 0, "a")
    disk.fail_replace = DiskFull
    with pytest.raises(DiskFull):
        await log.roll(NOW_MS)
    with pytest.raises(DiskFull):
        await log.apply_retention(NOW_MS + 2000)
    assert log.log_start_offset == 0
    disk.fail_replace = None
    assert await log.apply_retention(NOW_MS + 2000) == 1
    log = await reopen(disk, config)
    assert produce(log, 0, "a") == (0, True)
    assert log.damage == []
    await log.close()


async def test_rolls_and_retention_between_snapshots_keep_every_producer(disk: FaultyDisk) -> None:
    config = LogConfig(segment_bytes=500, retention_bytes=1000)
    log = await create(disk, config)
    produce(log, 0, "first")
    await append_rolling(log, 100)
    await log.apply_retention(NOW_MS)
    assert log.log_start_offset > 50
    log = await reopen(disk, config)
    assert produce(log, 0, "first") == (0, True)
    await log.close()


small = st.integers(0, 2**31 - 1)
batches = st.lists(
    st.builds(ProducerBatch, small, small, small, small, st.integers(-1, 2**40)),
    min_size=1,
    max_size=5,
)
entries = st.dictionaries(
    st.integers(0, 2**62),
    st.tuples(st.integers(0, 32767), st.integers(0, 2**42), batches.map(tuple)),
    max_size=5,
)


@given(entries)
def test_snapshots_come_back_whole_or_not_at_all(producers: dict[int, object]) -> None:
    snapshot = Snapshot(10, 5, 777, 3, Times(1, 2, 3), 4, producers)  # type: ignore[arg-type]
    content = encode_snapshot(snapshot)
    assert decode_snapshot(content) == snapshot
    for cut in range(0, len(content), 7):
        assert decode_snapshot(content[:cut]) is None
        assert (
            decode_snapshot(content[:cut] + bytes([content[cut] ^ 1]) + content[cut + 1 :]) is None
        )


def test_too_many_producers_are_cut_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.log.producers.PRODUCERS_MAX", 10)
    states = ProducerStates(DAY_MS)
    for producer_id in range(30):
        states.replay(producer_id, 0, NOW_MS + producer_id, ProducerBatch(0, 0, 0, 0, -1))
    states.expire(NOW_MS)
    assert sorted(states.entries) == list(range(20, 30))
