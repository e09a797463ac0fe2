"""A producer's queue for one partition: numbers, retries, epochs, halves."""

from __future__ import annotations

import asyncio

import pytest

from broker.client.failure import ClientError
from broker.client.lane import EPOCH_MAX, Delivery, Lane, RecordMetadata, advance
from broker.model import INT32_MAX, NO_PRODUCER_ID
from broker.records.batch import read_header
from broker.records.build import NewRecord


def filled(*counts: int, batch_bytes: int = 10_000) -> tuple[Lane, list[Delivery]]:
    """A lane with an identity and one closed batch per count."""
    lane = Lane("orders", 3)
    lane.identify(77, 0)
    deliveries: list[Delivery] = []
    for count in counts:
        for number in range(count):
            delivery: Delivery = asyncio.get_running_loop().create_future()
            record = NewRecord(None, b"%d" % number, (), 1000 + number)
            lane.append(record, delivery, now_ms=5, batch_bytes=batch_bytes)
            deliveries.append(delivery)
        lane.queue[-1].is_closed = True
    return lane, deliveries


def encode(lane: Lane) -> tuple[int, int, int]:
    """(producer id, epoch, base sequence) of the first batch as sent."""
    data = lane.encode_head(is_idempotent=True, compression="none", now_wall_ms=9)
    header = read_header(data)
    return header.producer_id, header.producer_epoch, header.base_sequence


async def test_sequences_follow_the_batches() -> None:
    lane, deliveries = filled(3, 2)
    assert encode(lane) == (77, 0, 0)
    lane.succeed(40, -1)
    assert encode(lane) == (77, 0, 3)
    lane.succeed(43, 555)
    assert [delivery.result() for delivery in deliveries] == [
        RecordMetadata("orders", 3, 40, 1000),
        RecordMetadata("orders", 3, 41, 1001),
        RecordMetadata("orders", 3, 42, 1002),
        RecordMetadata("orders", 3, 43, 555),
        RecordMetadata("orders", 3, 44, 555),
    ]


async def test_a_retry_has_the_same_bytes() -> None:
    lane, _ = filled(2)
    first = bytes(lane.encode_head(is_idempotent=True, compression="gzip", now_wall_ms=1))
    assert lane.encode_head(is_idempotent=True, compression="gzip", now_wall_ms=2) == first


async def test_a_batch_on_its_way_takes_no_more_records() -> None:
    lane, _ = filled(1)
    encode(lane)
    lane.append(NewRecord(None, b"next"), asyncio.Future(), now_ms=6, batch_bytes=10_000)
    assert [len(batch.records) for batch in lane.queue] == [1, 1]


async def test_a_full_batch_is_closed() -> None:
    lane, _ = filled(5, batch_bytes=120)
    assert [len(batch.records) for batch in lane.queue] == [2, 2, 1]
    assert lane.queue[0].is_closed


async def test_a_refused_batch_leaves_no_gap() -> None:
    lane, (delivery, _) = filled(1, 1)
    encode(lane)
    lane.fail(ClientError("refused"))
    assert encode(lane) == (77, 0, 0)
    with pytest.raises(ClientError):
        delivery.result()


async def test_after_an_unknown_outcome_the_next_epoch_begins() -> None:
    lane, _ = filled(1, 1)
    encode(lane)
    lane.queue[0].is_outcome_unknown = True
    lane.fail(ClientError("expired"))
    assert encode(lane) == (77, 1, 0)


async def test_after_the_last_epoch_a_new_identity_is_needed() -> None:
    lane, _ = filled(1)
    lane.identify(77, EPOCH_MAX)
    lane.next_epoch()
    assert lane.producer_id == NO_PRODUCER_ID


async def test_a_batch_too_large_becomes_two_with_their_own_numbers() -> None:
    lane, deliveries = filled(5, 1)
    encode(lane)
    assert lane.split_head()
    assert [len(batch.records) for batch in lane.queue] == [2, 3, 1]
    assert encode(lane) == (77, 0, 0)
    lane.succeed(0, -1)
    assert encode(lane) == (77, 0, 2)
    lane.succeed(2, -1)
    assert encode(lane) == (77, 0, 5)
    assert [delivery.result().offset for delivery in deliveries[:5]] == [0, 1, 2, 3, 4]


async def test_a_single_record_cannot_be_split() -> None:
    lane, _ = filled(1)
    assert not lane.split_head()


async def test_a_cancelled_delivery_does_not_disturb_the_others() -> None:
    lane, (first, second) = filled(2)
    first.cancel()
    lane.succeed(7, -1)
    assert second.result().offset == 8


def test_sequence_numbers_wrap_to_zero() -> None:
    assert advance(INT32_MAX, 1) == 0
    assert advance(INT32_MAX - 1, 3) == 1
    assert advance(5, 0) == 5
