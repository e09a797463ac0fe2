"""Commits, fetches, expiry and deletion of offsets and groups."""

from __future__ import annotations

import pytest

from broker.errors import ErrorCode
from tests.coordinators.world import DAY_MS, GROUP, World


def test_committed_offset_is_fetched() -> None:
    world = World()
    (member,) = world.stable_group(1)
    assert world.commit(42, member_id=member, generation=1) is ErrorCode.NONE
    assert world.committed() == 42
    assert world.committed(partition=1) is None
    assert world.committed(group="other") is None


def test_consumer_without_a_group_commits_while_nobody_is_a_member() -> None:
    world = World()
    assert world.commit(7) is ErrorCode.NONE
    assert world.group.state == "Empty"
    world.stable_group(1)
    assert world.commit(8) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed() == 7


def test_zombie_commits_are_refused() -> None:
    world = World()
    leader, zombie = world.stable_group(2)
    generation = world.group.generation
    assert world.commit(100, member_id=leader, generation=generation) is ErrorCode.NONE
    world.leave((zombie, None))
    world.join(leader)
    world.settle([leader])
    assert world.commit(5, member_id=zombie, generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(5, member_id=leader, generation=generation) is ErrorCode.ILLEGAL_GENERATION
    world.restart()
    assert world.commit(5, member_id=zombie, generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(5, member_id=leader, generation=generation) is ErrorCode.ILLEGAL_GENERATION
    assert world.committed() == 100


def test_member_of_a_generation_commits_to_no_group_that_was_forgotten() -> None:
    world = World()
    assert world.commit(5, member_id="m", generation=3) is ErrorCode.ILLEGAL_GENERATION
    assert not world.shard.groups


def test_commit_is_taken_while_a_rebalance_is_prepared_and_refused_while_it_completes() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    generation = world.group.generation
    world.join(leader)
    assert world.commit(1, member_id=follower, generation=generation) is ErrorCode.NONE
    world.join(follower)
    code = world.commit(2, member_id=follower, generation=world.group.generation)
    assert code is ErrorCode.REBALANCE_IN_PROGRESS


def test_commit_is_a_sign_of_life() -> None:
    world = World()
    (member,) = world.stable_group(1)
    for offset in range(10):
        world.advance(9_000)
        assert world.commit(offset, member_id=member, generation=1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"metadata": "x" * 4_096}, ErrorCode.NONE),
        ({"metadata": "x" * 4_097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"metadata": "ä" * 2_049}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"metadata": None}, ErrorCode.NONE),
        ({"topic": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 12}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offset": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_each_partition_of_a_commit_has_its_own_answer(
    options: dict[str, object], code: ErrorCode
) -> None:
    world = World()
    assert world.commit(**{"offset": 1, **options}) is code
    assert (world.committed() == 1) is (code is ErrorCode.NONE)


def test_recreated_topic_never_shows_an_old_offset() -> None:
    world = World()
    world.commit(99)
    world.topics["orders"] = (b"orders again----", 12)
    assert world.committed() is None
    assert world.shard.fetch_offsets(GROUP, None, world.find_topic) == []
    world.commit(3)
    assert world.committed() == 3


def test_deleted_topic_takes_its_commits_along_and_nothing_else() -> None:
    world = World()
    world.topics["other"] = (b"other-----------", 1)
    (member,) = world.stable_group(1)
    world.commit(1, member_id=member, generation=1)
    world.commit(2, member_id=member, generation=1, topic="other")
    topic_id, _ = world.topics.pop("orders")
    world.execute(world.shard.on_topic_removed(GROUP, topic_id))
    assert [commit.topic for commit in world.shard.all_offsets()] == ["other"]
    assert (world.group.state, world.group.generation) == ("Stable", 1)
    world.restart()
    assert [commit.topic for commit in world.shard.all_offsets()] == ["other"]


def test_offsets_of_an_idle_but_connected_member_outlive_any_retention() -> None:
    world = World()
    (member,) = world.stable_group(1)
    world.commit(42, member_id=member, generation=1)
    for _ in range(30):
        world.wall_ms += DAY_MS
        assert world.heartbeat(member, world.group.generation) is ErrorCode.NONE
        world.expire()
    assert world.committed() == 42


def test_offsets_expire_a_retention_after_the_group_became_empty() -> None:
    world = World()
    (member,) = world.stable_group(1)
    world.commit(42, member_id=member, generation=1)
    world.wall_ms += 5 * DAY_MS
    world.leave((member, None))
    world.wall_ms += 7 * DAY_MS - 1
    world.expire()
    assert world.committed() == 42
    world.wall_ms += 1
    world.expire()
    assert GROUP not in world.shard.groups
    world.restart()
    assert not world.shard.groups
    assert not list(world.shard.all_offsets())


def test_offsets_of_a_simple_consumer_expire_a_retention_after_their_commit() -> None:
    world = World()
    world.commit(1)
    world.wall_ms += 6 * DAY_MS
    world.commit(2, partition=1)
    world.wall_ms += DAY_MS
    world.expire()
    assert (world.committed(), world.committed(partition=1)) == (None, 2)


def test_offsets_of_a_topic_that_the_group_left_expire_though_it_lives() -> None:
    world = World()
    world.topics["other"] = (b"other-----------", 1)
    (member,) = world.stable_group(1)
    world.commit(1, member_id=member, generation=1)
    world.commit(2, member_id=member, generation=1, topic="other")
    world.wall_ms += 7 * DAY_MS
    world.expire()
    assert (world.committed(), world.committed(topic="other")) == (1, None)


def test_offset_committed_by_an_operator_to_an_empty_group_lives_from_then_on() -> None:
    world = World()
    (member,) = world.stable_group(1)
    world.leave((member, None))
    world.wall_ms += 6 * DAY_MS
    world.commit(9)
    world.wall_ms += 6 * DAY_MS
    world.expire()
    assert world.committed() == 9


def test_empty_group_is_deleted_with_everything_it_stored() -> None:
    world = World()
    (member,) = world.stable_group(1)
    world.commit(1, member_id=member, generation=1)
    effects, code = world.shard.on_delete(GROUP)
    assert (effects, code) == ([], ErrorCode.NON_EMPTY_GROUP)
    world.leave((member, None))
    effects, code = world.shard.on_delete(GROUP)
    assert code is ErrorCode.NONE
    world.execute(effects)
    assert GROUP not in world.shard.groups
    assert world.shard.on_delete(GROUP) == ([], ErrorCode.GROUP_ID_NOT_FOUND)
    world.restart()
    assert not world.shard.groups


def test_node_with_enough_groups_takes_no_commit_of_another() -> None:
    world = World()
    world.may_create_group = False
    assert world.commit(1) is ErrorCode.POLICY_VIOLATION
