"""The short way to a partition's answer says what the long way says, or leaves it to that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from broker.config.broker import BrokerSettings
from broker.config.group import GroupSettings
from broker.errors import ErrorCode
from broker.metastore.memory import MemoryMetastore
from broker.runtime.clock import SystemClock
from broker.runtime.disk import SystemDisk
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from broker.runtime.worker import ProcessWorker
from broker.server.fetch_answers import Answer, ends_of, find, look_up, read
from broker.server.fetch_sessions import Wanted
from broker.server.node import Broker
from broker.server.partition import Partition
from broker.server.topic_rules import WantedTopic

MIB = 1 << 20


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = BrokerSettings(
        listeners="PLAINTEXT://127.0.0.1:0",
        hermes_metrics_port=-1,
        log_dir=str(tmp_path),
        group=GroupSettings(offsets_topic_num_partitions=1),
    )
    disk, worker = SystemDisk(str(tmp_path)), ProcessWorker()
    clock, store = SystemClock(), MemoryMetastore()
    node = Broker(settings, disk, clock, SystemNetwork(), store, SystemIds(), worker)
    await node.start()
    yield node
    await node.stop()
    worker.close()
    disk.close()


async def topic(node: Broker, **overrides: str) -> Partition:
    """Its only partition, with 40 batches of two records: offsets 0 to 79."""
    await node.catalog.create_topic(WantedTopic("t", 1), {"durability": "replicated", **overrides})
    partition = node.partitions.get("t", 0)
    assert partition is not None
    for number in range(40):
        records = [(None, b"x" * number), (None, b"y")]
        partition.append_records(records, lambda _code: None)
        node.turn.settle()
    return partition


def long_way(node: Broker, wanted: Wanted, room: int, *, at_least_one: bool) -> Answer | None:
    found = look_up(node.partitions, wanted)
    if found is None or isinstance(found, Answer):
        return found
    return read(found, room, at_least_one=at_least_one)


async def test_both_ways_say_the_same_of_every_place_limit_and_epoch(node: Broker) -> None:
    partition = await topic(node)
    await partition.delete_records(6)
    short_count = 0
    for offset, epoch, fetched_epoch in product(
        (-1, 0, 5, 6, 7, 40, 78, 79, 80, 81, 1 << 40), (-1, 0, 1, 2), (-1, 0, 1, 2)
    ):
        for size, room, at_least_one in product((0, 100, MIB), (0, 150, MIB), (False, True)):
            wanted = Wanted("t", (0, epoch, offset, fetched_epoch, size))
            short = find(node.partitions, wanted, room, at_least_one=at_least_one)
            expected = long_way(node, wanted, room, at_least_one=at_least_one)
            if short is not None:
                short_count += 1
                assert expected is not None
                assert short == expected
                assert (short.wanted, short.partition) == (wanted, partition)
            else:
                assert expected is not None
                assert expected.error_code or len(expected.tags) > 1 or offset > 80
    assert short_count > 400


async def test_a_reader_that_goes_on_gets_the_same_both_ways(node: Broker) -> None:
    partition = await topic(node)
    offset = 0
    while offset < 80:
        wanted = Wanted("t", (0, -1, offset, -1, 400))
        short = find(node.partitions, wanted, MIB, at_least_one=True)
        assert short is not None
        assert short == long_way(node, wanted, MIB, at_least_one=True)
        offset = short.next_offset
    for _ in range(5):
        partition.append_records([(None, b"tail")], lambda _code: None)
        node.turn.settle()
        wanted = Wanted("t", (0, -1, offset, -1, 400))
        short = find(node.partitions, wanted, MIB, at_least_one=True)
        partition.log.positions.clear()
        assert short is not None
        assert len(short.records) > 0
        assert short == long_way(node, wanted, MIB, at_least_one=True)
        offset = short.next_offset


async def test_what_is_unusual_is_left_to_the_long_way(node: Broker) -> None:
    delay = {"delivery.delay.ms": "60000", "message.timestamp.type": "LogAppendTime"}
    partition = await topic(node, **delay)
    wanted = Wanted("t", (0, -1, 0, -1, MIB))
    assert find(node.partitions, wanted, MIB, at_least_one=True) is None
    hidden = long_way(node, wanted, MIB, at_least_one=True)
    assert hidden is not None
    assert len(hidden.records) == 0
    unknown = Wanted("u", (0, -1, 0, -1, MIB))
    assert find(node.partitions, unknown, MIB, at_least_one=True) is None
    partition.take_offline("a fault")
    assert find(node.partitions, wanted, MIB, at_least_one=True) is None
    refused = long_way(node, wanted, MIB, at_least_one=True)
    assert refused is not None
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_only_who_would_be_told_nothing_is_parked_without_a_look(node: Broker) -> None:
    partition = await topic(node)
    await partition.delete_records(6)
    parked_count = 0
    for offset, epoch, fetched_epoch in product((-1, 0, 6, 79, 80, 81), (-1, 0, 1), (-1, 0, 1)):
        wanted = Wanted("t", (0, epoch, offset, fetched_epoch, MIB))
        answer = long_way(node, wanted, MIB, at_least_one=True)
        assert answer is not None
        says_nothing = not (answer.error_code or answer.is_urgent or len(answer.records))
        ends = ends_of(node.partitions, [wanted, wanted])
        assert ends == ([partition, partition] if says_nothing else None)
        parked_count += says_nothing
    assert parked_count == 4, "at the end, with both epochs right or not told"
    at_end = Wanted("t", (0, -1, 80, -1, MIB))
    assert ends_of(node.partitions, [at_end, Wanted("u", (0, -1, 80, -1, MIB))]) is None
    assert ends_of(node.partitions, [at_end, Wanted("t", (0, -1, 79, -1, MIB))]) is None
    partition.take_offline("a fault")
    assert ends_of(node.partitions, [at_end]) is None


async def test_nobody_at_a_delivery_window_is_parked_without_a_look(node: Broker) -> None:
    await topic(node, **{"delivery.delay.ms": "1", "message.timestamp.type": "LogAppendTime"})
    assert ends_of(node.partitions, [Wanted("t", (0, -1, 80, -1, MIB))]) is None
