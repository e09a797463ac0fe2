"""The group APIs of a running broker, request by request, over every version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.errors import ErrorCode
from broker.server.names import CONSUMER_OFFSETS
from broker.wire.messages.delete_groups import DeleteGroupsRequest
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.messages.describe_groups import DescribeGroupsRequest
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.messages.list_groups import ListGroupsRequest
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.server.group_world import TOPIC, Cluster, simulate

GROUPS = [f"group-{number}" for number in range(8)]


def test_first_question_for_a_coordinator_creates_the_offsets_topic() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert cluster.broker.catalog.topic(CONSUMER_OFFSETS) is None
        assert (await cluster.join("g", 3)).error_code == ErrorCode.NOT_COORDINATOR
        answer = await cluster.ask(FindCoordinatorRequest(key="g"), 2)
        assert (answer.error_code, answer.node_id) == (0, cluster.broker.node_id)
        assert (answer.host, answer.port) == ("127.0.0.1", cluster.broker.kafka_port)
        topic = cluster.broker.catalog.topic(CONSUMER_OFFSETS)
        assert topic is not None
        assert topic.is_internal
        assert topic.partition_count == 4
        assert set(topic.settings.cleanup_policy) == {"compact"}

    simulate(scenario)


def test_many_first_questions_at_once_create_it_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        asked = [cluster.ask(FindCoordinatorRequest(key="g"), 3) for _ in range(5)]
        assert {answer.error_code for answer in await asyncio.gather(*asked)} == {0}

    simulate(scenario)


def test_find_coordinator_answers_in_every_version() -> None:
    async def scenario(cluster: Cluster) -> None:
        for version in range(7):
            if version >= 4:
                request = FindCoordinatorRequest(coordinator_keys=["a", "b"])
                answers = (await cluster.ask(request, version)).coordinators
                assert [answer.key for answer in answers] == ["a", "b"]
            else:
                answers = [await cluster.ask(FindCoordinatorRequest(key="a"), version)]
            assert {(a.error_code, a.node_id, a.host) for a in answers} == {(0, 0, "127.0.0.1")}
        for key_type, code in ((1, ErrorCode.NONE), (2, ErrorCode.INVALID_REQUEST)):
            request = FindCoordinatorRequest(coordinator_keys=["a"], key_type=key_type)
            answer = (await cluster.ask(request, 6)).coordinators[0]
            assert answer.error_code == code

    simulate(scenario)


@pytest.mark.parametrize("version", range(10))
def test_group_of_one_lives_and_leaves_in_every_version(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.join("g", version)
        assert (joined.error_code, joined.generation_id) == (0, 1)
        assert joined.protocol_name == "range"
        assert joined.leader == joined.member_id
        assert [member.member_id for member in joined.members] == [joined.member_id]
        synced = await cluster.sync("g", joined, min(version, 5))
        assert (synced.error_code, synced.assignment) == (0, b"mine")
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await cluster.ask(beat, min(version, 4))).error_code == 0
        commit_version = max(2, version)
        assert await cluster.commit("g", 7, joined=joined, version=commit_version) == 0
        leave = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        if version >= 3:
            leave = LeaveGroupRequest(
                group_id="g", members=[MemberIdentity(member_id=joined.member_id)]
            )
        left = await cluster.ask(leave, min(version, 5))
        assert left.error_code == 0
        assert all(member.error_code == 0 for member in left.members)
        assert await cluster.committed("g") == 7

    simulate(scenario)


def test_errors_of_every_group_request_reach_the_client_in_every_version() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        for version in range(10):
            assert (await cluster.join("g", version, "nobody")).error_code == unknown
            assert (await cluster.join("", version)).error_code == ErrorCode.INVALID_GROUP_ID
        for version in range(5):
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
            assert (await cluster.ask(beat, version)).error_code == unknown
        for version in range(2, 10):
            code = await cluster.commit("g", 1, joined=_Zombie, version=version)
            assert code == ErrorCode.ILLEGAL_GENERATION

    class _Zombie:
        generation_id = 3
        member_id = "zombie"

    simulate(scenario)


def _fetch(version: int, group: str, partitions: list[int] | None) -> OffsetFetchRequest:
    if version >= 8:
        topics = None
        if partitions is not None:
            topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=partitions)]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    flat = None
    if partitions is not None:
        flat = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=partitions)]
    return OffsetFetchRequest(group_id=group, topics=flat, require_stable=version >= 7)


def _offsets(version: int, answer: Any) -> dict[int, int]:
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    return {
        partition.partition_index: partition.committed_offset
        for topic in topics
        for partition in topic.partitions
        if partition.error_code == 0
    }


@pytest.mark.parametrize("version", range(1, 10))
def test_offset_fetch_answers_some_or_all_partitions_in_every_version(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        assert await cluster.commit("g", 5, partition=1) == 0
        answer = await cluster.ask(_fetch(version, "g", [0, 1, 99]), version)
        assert _offsets(version, answer) == {0: -1, 1: 5, 99: -1}
        if version >= 2:
            answer = await cluster.ask(_fetch(version, "g", None), version)
            assert _offsets(version, answer) == {1: 5}
        answer = await cluster.ask(_fetch(version, "unknown", [0]), version)
        assert _offsets(version, answer) == {0: -1}

    simulate(scenario)


def test_offset_fetch_of_many_groups_asks_every_shard_and_keeps_their_order() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        for number, group in enumerate(GROUPS):
            assert await cluster.commit(group, number) == 0
        wanted = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS]
        answer = await cluster.ask(OffsetFetchRequest(groups=wanted), 8)
        assert [group.group_id for group in answer.groups] == GROUPS
        offsets = [group.topics[0].partitions[0].committed_offset for group in answer.groups]
        assert offsets == list(range(len(GROUPS)))
        assert (await cluster.ask(OffsetFetchRequest(groups=[]), 9)).groups == []

    simulate(scenario)


def test_groups_are_described_listed_and_deleted_in_every_version() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("busy")
        assert await cluster.commit("idle", 1) == 0
        for version in range(7):
            request = DescribeGroupsRequest(
                groups=["busy", "none"], include_authorized_operations=version >= 3
            )
            busy, none = (await cluster.ask(request, version)).groups
            assert (busy.group_state, busy.protocol_data) == ("Stable", "range")
            assert busy.members[0].member_id == joined.member_id
            assert busy.members[0].member_assignment == b"mine"
            assert busy.members[0].client_host == "/127.0.0.1"
            assert none.group_state == "Dead"
            assert bool(none.error_code) is (version >= 6)
            assert version < 3 or busy.authorized_operations == 328
        for version in range(6):
            states = ["Empty"] if version >= 4 else []
            request = ListGroupsRequest(states_filter=states)
            listed = {group.group_id for group in (await cluster.ask(request, version)).groups}
            assert listed == ({"idle"} if version >= 4 else {"busy", "idle"})
        expected = [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE]
        for version in range(3):
            request = DeleteGroupsRequest(groups_names=["busy", "none", "idle"])
            results = (await cluster.ask(request, version)).results
            assert [result.error_code for result in results] == expected
            assert await cluster.committed("idle") == -1
            assert await cluster.commit("idle", 1) == 0

    simulate(scenario)


def test_deleted_and_recreated_topic_shows_no_old_offset() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        assert await cluster.commit("g", 99) == 0
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5_000)
        assert (await cluster.ask(request, 6)).responses[0].error_code == 0
        assert await cluster.committed("g") == -1
        await cluster.until(lambda: not list(cluster.broker.groups.committed_offsets()))
        await cluster.prepare()
        assert await cluster.committed("g") == -1
        await cluster.restart()
        assert await cluster.committed("g") == -1

    simulate(scenario)
