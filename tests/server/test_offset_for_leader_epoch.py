"""OffsetForLeaderEpoch: a consumer that outlives a restart learns that nothing was cut off."""

from __future__ import annotations

import pytest

from broker.errors import ErrorCode
from broker.records.build import build_batch
from broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.server.group_world import TOPIC, Cluster, simulate


async def produce(cluster: Cluster, count: int) -> None:
    batch = build_batch([(b"key", b"value")] * count, timestamp_ms=1_700_000_000_000)
    data = PartitionProduceData(index=0, records=batch)
    topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
    answer = await cluster.ask(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def end_of(
    cluster: Cluster, epoch: int, *, current: int = -1, index: int = 0, version: int = 4
) -> EpochEndOffset:
    question = OffsetForLeaderPartition(
        partition=index, leader_epoch=epoch, current_leader_epoch=current
    )
    topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[question])]
    answer = await cluster.ask(OffsetForLeaderEpochRequest(topics=topics), version)
    found: EpochEndOffset = answer.topics[0].partitions[0]
    return found


@pytest.mark.parametrize("version", [2, 3, 4])
def test_each_epoch_ended_where_the_next_one_began(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        await produce(cluster, 3)
        await cluster.restart()
        await produce(cluster, 2)
        await cluster.restart()
        await cluster.restart()
        ends = [await end_of(cluster, epoch, version=version) for epoch in range(5)]
        assert [(end.leader_epoch, end.end_offset) for end in ends] == [
            (0, 3),
            (1, 5),
            (2, 5),
            (3, 5),
            (-1, -1),
        ]

    simulate(scenario)


def test_wrong_partition_or_leader_epoch_is_refused() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        await cluster.restart()
        unknown = await end_of(cluster, 0, index=99)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await end_of(cluster, 0, current=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (await end_of(cluster, 0, current=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await end_of(cluster, 0, current=1)).error_code == ErrorCode.NONE

    simulate(scenario)
