"""OffsetDelete, decided: whose commits may go, and what is stored of it."""

from __future__ import annotations

import time

import pytest

from broker.errors import ErrorCode
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.coordinators.world import GROUP, Answer, World, subscription

OTHER = (("range", subscription("payments")),)
DONE = ErrorCode.NONE


def world_with_topics() -> World:
    world = World()
    world.topics["payments"] = (b"payments--------", 2)
    return world


def ask(world: World, topic: str, *partitions: int, group: str = GROUP) -> OffsetDeleteResponse:
    answer = Answer()
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in partitions],
            )
        ],
    )
    world.execute(world.shard.on_offset_delete(request, world.find_topic, answer))
    assert isinstance(answer.response, OffsetDeleteResponse)
    return answer.response


def codes(response: OffsetDeleteResponse) -> list[int]:
    assert response.error_code == 0
    return [item.error_code for topic in response.topics for item in topic.partitions]


def test_commits_of_an_empty_group_go_one_by_one_and_stay_gone() -> None:
    world = World()
    for partition in range(3):
        world.commit(10 + partition, partition=partition)
    assert codes(ask(world, "orders", 0, 2)) == [DONE, DONE]
    for _ in range(2):
        assert [world.committed(partition=index) for index in range(3)] == [None, 11, None]
        world.restart()
    assert codes(ask(world, "orders", 1)) == [DONE]
    assert GROUP not in world.shard.groups, "a group of which nothing is left is forgotten"


def test_what_was_never_committed_is_deleted_too_and_stores_nothing() -> None:
    world = World()
    world.commit(1)
    stored = len(world.log)
    assert codes(ask(world, "orders", 3, 3)) == [DONE, DONE]
    assert len(world.log) == stored
    assert codes(ask(world, "orders", 0, 0)) == [DONE, DONE]
    assert len(world.log) == stored + 1


def test_a_topic_that_a_member_subscribes_to_is_refused_and_others_are_not() -> None:
    world = world_with_topics()
    members = world.stable_group(2, protocols=OTHER)
    generation = world.group.generation
    for topic in ("orders", "payments"):
        code = world.commit(5, member_id=members[0], generation=generation, topic=topic)
        assert code is DONE
    refused = [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert codes(ask(world, "payments", 0)) == refused
    assert codes(ask(world, "orders", 0)) == [DONE]
    world.join(members[0], protocols=OTHER)
    assert world.group.state == "PreparingRebalance"
    assert codes(ask(world, "payments", 1)) == refused, "a rebalance changes nothing about it"
    for member in members:
        world.leave((member, None))
    assert codes(ask(world, "payments", 0)) == [DONE]


def test_a_member_that_cannot_be_understood_protects_every_topic() -> None:
    world = World()
    world.commit(1)
    world.stable_group(1, protocols=(("range", b"\x00"),))
    assert codes(ask(world, "orders", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert world.committed() == 1


def test_many_topics_and_many_members_are_looked_at_once_each() -> None:
    world = World()
    world.stable_group(100)
    topics = [
        OffsetDeleteRequestTopic(
            name=f"t{number}", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        for number in range(2_000)
    ]
    request = OffsetDeleteRequest(group_id=GROUP, topics=topics)
    began_s = time.process_time()
    world.execute(world.shard.on_offset_delete(request, world.find_topic, Answer()))
    assert time.process_time() - began_s < 0.5, "200,000 looks take seconds"


def test_members_that_are_no_consumers_refuse_the_whole_request() -> None:
    world = World()
    world.commit(1)
    world.stable_group(1, protocol_type="connect", protocols=(("v1", b"x"),))
    response = ask(world, "orders", 0)
    assert (response.error_code, response.topics) == (ErrorCode.NON_EMPTY_GROUP, [])
    assert world.committed() == 1


@pytest.mark.parametrize(("topic", "partition"), [("nobody", 0), ("orders", 12), ("orders", -1)])
def test_unknown_places(topic: str, partition: int) -> None:
    world = World()
    world.commit(1)
    assert codes(ask(world, topic, partition)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    unknown_group = ask(world, "orders", 0, group="nobody")
    assert unknown_group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
