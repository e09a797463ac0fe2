"""A topic that goes and comes in the middle of a producer's pipeline: nothing is overtaken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode, Refusal
from broker.log.producers import ProducerStates
from broker.server.forsaken import FORSAKEN_MAX, Forsaken
from broker.wire import api
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.server.group_world import TOPIC, Cluster, simulate
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of

PRODUCER = 77


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireClient]:
    directory: Path = tmp_path_factory.mktemp("recreated")
    settings = {"auto.create.topics.enable": "false"}
    with BrokerProcess(directory, settings) as broker, WireClient(broker.kafka_port) as connected:
        yield connected


def batch(sequence: int, epoch: int = 0) -> bytearray:
    return batch_of(
        [(b"k", b"v%d" % sequence)],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def send(client: WireClient, topic: str, sequence: int, epoch: int = 0) -> tuple[int, int]:
    """(error, base offset)."""
    answer = client.produce(topic, batch(sequence, epoch))
    return answer.error_code, answer.base_offset


def delete(client: WireClient, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
    (answer,) = client.call(api.DELETE_TOPICS, 6, request).responses
    assert answer.error_code == 0


REFUSED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
OUT_OF_ORDER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_what_was_sent_behind_a_batch_that_the_gone_topic_refused_waits_for_it(
    client: WireClient,
) -> None:
    client.create_topic("again")
    assert [send(client, "again", sequence) for sequence in (0, 1)] == [(0, 0), (0, 1)]
    delete(client, "again")
    assert send(client, "again", 2) == REFUSED
    client.create_topic("again")
    assert send(client, "again", 3) == OUT_OF_ORDER
    assert send(client, "again", 4) == OUT_OF_ORDER
    assert [send(client, "again", sequence) for sequence in (2, 3, 4)] == [(0, 0), (0, 1), (0, 2)]


def test_a_refused_batch_is_waited_for_by_the_topic_after_the_next_one_too(
    client: WireClient,
) -> None:
    client.create_topic("twice")
    assert send(client, "twice", 0) == (0, 0)
    delete(client, "twice")
    assert send(client, "twice", 1) == REFUSED
    for _ in range(2):
        client.create_topic("twice")
        assert send(client, "twice", 2) == OUT_OF_ORDER
        delete(client, "twice")
    client.create_topic("twice")
    assert send(client, "twice", 2) == OUT_OF_ORDER
    assert [send(client, "twice", sequence) for sequence in (1, 2)] == [(0, 0), (0, 1)]


def test_a_producer_that_gives_the_refused_batch_up_goes_on_in_its_next_epoch(
    client: WireClient,
) -> None:
    assert send(client, "late", 0) == REFUSED
    client.create_topic("late")
    assert send(client, "late", 1) == OUT_OF_ORDER
    assert send(client, "late", 0, epoch=1) == (0, 0)


@pytest.mark.parametrize("is_offline", [False, True])
def test_a_batch_that_was_not_acknowledged_when_its_topic_went_is_waited_for_in_the_next_one(
    *, is_offline: bool
) -> None:
    offline, gone = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        answers: list[ErrorCode] = []

        def stage(sequence: int) -> int:
            partition = cluster.broker.partitions.get(TOPIC, 0)
            assert partition is not None
            now_ms = cluster.broker.clock.wall_ms()
            return partition.stage(
                memoryview(batch(sequence)), answers.append, acks=-1, now_wall_ms=now_ms
            ).base_offset

        assert [stage(sequence) for sequence in (0, 1)] == [0, 1]
        topic = cluster.broker.catalog.topic(TOPIC)
        assert topic is not None
        cluster.broker.turn.settle()  # written, and not synced yet
        if is_offline:
            partition = cluster.broker.partitions.get(TOPIC, 0)
            assert partition is not None
            partition.take_offline("a fault, after which somebody makes the topic anew")
        await cluster.broker.partitions.delete_topic(topic)
        await cluster.broker.catalog.delete_topic(topic.topic_id)
        assert answers == [offline if is_offline else gone] * 2
        await cluster.prepare()
        with pytest.raises(Refusal) as refused:
            stage(1)
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [stage(sequence) for sequence in (0, 1)] == [0, 1]
        await cluster.until(lambda: answers[2:] == [ErrorCode.NONE] * 2)

    simulate(scenario, {"hermes.durability": "fsync"})


def test_what_is_remembered_is_bounded_and_handed_over_once() -> None:
    forsaken = Forsaken()
    for producer_id in range(FORSAKEN_MAX + 10):
        forsaken.note("t", 0, (producer_id, 0, 5), 1)
        forsaken.note("t", 0, (producer_id, 0, 6), 2)
    producers = ProducerStates(1_000)
    forsaken.hand_over("t", 0, producers)
    for producer_id in (0, 9):
        assert producers.find_duplicate(producer_id, 0, 6, 6, 3) is None, "forgotten"
    for producer_id in (10, FORSAKEN_MAX + 9):
        assert producers.find_duplicate(producer_id, 0, 5, 5, 3) is None, "it comes again"
        with pytest.raises(Refusal, match="5 was refused and has not come again"):
            producers.find_duplicate(producer_id, 0, 6, 6, 3)
    another = ProducerStates(1_000)
    forsaken.hand_over("t", 0, another)
    assert another.find_duplicate(10, 0, 6, 6, 3) is None


def test_what_was_sent_to_a_name_that_no_topic_may_have_takes_no_room() -> None:
    forsaken = Forsaken()
    forsaken.on_refused("t", 0, batch(5), 1)
    for number in range(FORSAKEN_MAX):
        forsaken.on_refused("ö" * 16_000 + str(number), 0, batch(0), 2)
        forsaken.on_refused(f"{number}" + "t" * 249, 0, batch(0), 2)
    producers = ProducerStates(1_000)
    forsaken.hand_over("t", 0, producers)
    with pytest.raises(Refusal, match="5 was refused and has not come again"):
        producers.find_duplicate(PRODUCER, 0, 6, 6, 3)
