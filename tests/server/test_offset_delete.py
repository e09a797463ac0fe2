"""OffsetDelete of a running broker: over a restart, and as another client asks for it."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ErrorCode
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.server.group_world import TOPIC, Cluster, simulate
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient


def request(group: str, topic: str, *partitions: int) -> OffsetDeleteRequest:
    asked = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=asked)]
    )


def test_deleted_commits_are_gone_after_a_crash_and_others_are_not() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        for partition in range(3):
            assert await cluster.commit("g", 10 + partition, partition=partition) == 0
        answer = await cluster.ask(request("g", TOPIC, 0, 2), 0)
        assert [item.error_code for item in answer.topics[0].partitions] == [0, 0]
        for _ in range(2):
            assert [await cluster.committed("g", index) for index in range(3)] == [-1, 11, -1]
            await cluster.restart()

    simulate(scenario)


def test_a_subscribed_topic_and_bad_group_ids_are_refused() -> None:
    async def scenario(cluster: Cluster) -> None:
        no_topic = await cluster.ask(request("g", TOPIC, 0), 0)
        assert no_topic.error_code == ErrorCode.NOT_COORDINATOR
        await cluster.prepare()
        joined = await cluster.enter("g")
        assert await cluster.commit("g", 5, joined=joined) == 0
        answer = await cluster.ask(request("g", TOPIC, 0, 9), 0)
        codes = [item.error_code for item in answer.topics[0].partitions]
        assert codes == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await cluster.committed("g") == 5
        for group, code in (
            ("", ErrorCode.INVALID_GROUP_ID),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ):
            refused = await cluster.ask(request(group, TOPIC, 0), 0)
            assert (refused.error_code, refused.topics) == (code, [])

    simulate(scenario)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")
def test_kafka_python_deletes_offsets(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = importlib.import_module("kafka")
    partition = kafka.TopicPartition("orders", 0)
    with BrokerProcess(tmp_path) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("orders")
        admin = kafka.KafkaAdminClient(bootstrap_servers=process.bootstrap)
        try:
            offset = kafka.structs.OffsetAndMetadata(7, "", -1)
            admin.alter_group_offsets("g", {partition: offset})
            assert partition in admin.list_group_offsets("g")["g"]
            admin.delete_group_offsets("g", [partition])
            assert partition not in admin.list_group_offsets("g").get("g", {})
        finally:
            admin.close()
