"""SyncGroup, Heartbeat, sessions and LeaveGroup."""

from __future__ import annotations

import pytest

from broker.coordinators.group.records import to_log
from broker.errors import ErrorCode
from tests.coordinators.world import GROUP, World, subscription


def completing(world: World) -> tuple[str, str]:
    """(leader, follower) of a group whose leader has yet to assign."""
    leader, follower = world.stable_group(2)
    world.join(leader)
    world.join(follower)
    assert world.group.state == "CompletingRebalance"
    return leader, follower


def test_everybody_gets_what_the_leader_assigned_and_who_was_left_out_gets_nothing() -> None:
    world = World()
    leader, follower = completing(world)
    parked = world.sync(follower, world.group.generation)
    assert parked.is_parked
    answer = world.sync(leader, world.group.generation, {leader: b"all", "stranger": b"x"})
    assert (answer.response.assignment, parked.response.assignment) == (b"all", b"")
    assert answer.response.protocol_name == "range"
    assert answer.response.protocol_type == "consumer"


def test_assignment_is_stored_before_anybody_learns_of_it() -> None:
    world = World()
    leader, _ = completing(world)
    entries = len(world.log)
    world.sync(leader, world.group.generation, {leader: b"all"})
    assert len(world.log) == entries + 1
    assert world.shard.stored.generations[GROUP].members[0].assignment == b"all"


def test_late_sync_gets_the_assignment_of_a_stable_group() -> None:
    world = World()
    leader, follower = completing(world)
    world.sync(leader, world.group.generation, {follower: b"mine"})
    assert world.sync(follower, world.group.generation).response.assignment == b"mine"


def test_sync_is_refused_by_what_is_wrong_with_it() -> None:
    world = World()
    leader, follower = completing(world)
    generation = world.group.generation
    assert world.sync("nobody", generation).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync(follower, generation - 1).code is ErrorCode.ILLEGAL_GENERATION
    assert world.sync(leader, 1, group="").code is ErrorCode.INVALID_GROUP_ID
    assert world.sync(leader, 1, group="none").code is ErrorCode.UNKNOWN_MEMBER_ID
    other = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(leader, generation, protocol_type="connect").code is other
    assert world.sync(leader, generation, protocol="sticky").code is other
    world.join(leader, protocols=[("range", subscription("new"))])
    assert world.sync(follower, generation).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_change_during_the_assignment_sends_parked_syncs_back_to_join() -> None:
    world = World()
    leader, follower = completing(world)
    parked = world.sync(follower, world.group.generation)
    world.join(leader, protocols=[("range", subscription("new"))])
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower in world.group.members


def test_second_sync_of_a_parked_member_sends_the_first_back_to_retry() -> None:
    world = World()
    _, follower = completing(world)
    first = world.sync(follower, world.group.generation)
    second = world.sync(follower, world.group.generation)
    assert (first.code, second.is_parked) == (ErrorCode.REBALANCE_IN_PROGRESS, True)


def test_members_that_do_not_sync_in_time_are_out() -> None:
    world = World()
    leader, follower = world.stable_group(2, session_ms=600_000, rebalance_ms=30_000)
    world.join(leader, session_ms=600_000, rebalance_ms=30_000)
    world.join(follower, session_ms=600_000, rebalance_ms=30_000)
    parked = world.sync(follower, world.group.generation)
    world.advance(30_000)
    assert leader not in world.group.members
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_assignment_too_large_for_a_record_is_told_to_everybody() -> None:
    world = World(group_record_bytes_max=20_000)
    leader, follower = completing(world)
    parked = world.sync(follower, world.group.generation)
    answer = world.sync(leader, world.group.generation, {leader: bytes(20_000)})
    assert answer.code is parked.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.group.state == "PreparingRebalance"


@pytest.mark.parametrize("client", ["client", "c" * 9_000, "é" * 4_500])
def test_generation_that_takes_a_byte_more_than_a_record_holds_is_refused(client: str) -> None:
    world = World()
    world.stable_group(1, client=client, instance="i" * 300)
    key, value = to_log(world.shard.stored.generations[GROUP])
    assert value is not None
    world = World(group_record_bytes_max=len(key) + len(value) - 1)
    member, _ = world.enter(client=client, instance="i" * 300)
    answer = world.sync(member, world.group.generation, {member: member.encode()})
    assert answer.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert GROUP not in world.shard.stored.generations


def test_silent_member_is_removed_when_its_session_ends() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    world.advance(9_000)
    assert world.heartbeat(leader, world.group.generation) is ErrorCode.NONE
    world.advance(1_000)
    assert list(world.group.members) == [leader]
    assert world.group.state == "PreparingRebalance"
    assert follower not in world.group.members


def test_heartbeat_keeps_a_member_for_ever() -> None:
    world = World()
    (member,) = world.stable_group(1)
    for _ in range(1_000):
        world.advance(9_999)
        assert world.heartbeat(member, 1) is ErrorCode.NONE


def test_parked_member_is_not_expired_by_its_session() -> None:
    world = World()
    members = world.stable_group(2, session_ms=10_000, rebalance_ms=300_000)
    parked = world.join(members[0], rebalance_ms=300_000)
    for _ in range(20):
        world.advance(5_000)
        code = world.heartbeat(members[1], world.group.generation)
        assert code is ErrorCode.REBALANCE_IN_PROGRESS
    assert parked.is_parked
    assert list(world.group.members) == members


@pytest.mark.parametrize(
    ("member", "generation", "group", "code"),
    [
        ("nobody", 1, GROUP, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 0, GROUP, ErrorCode.ILLEGAL_GENERATION),
        (None, 2, GROUP, ErrorCode.ILLEGAL_GENERATION),
        (None, 1, "none", ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 1, "", ErrorCode.INVALID_GROUP_ID),
        (None, 1, GROUP, ErrorCode.NONE),
    ],
)
def test_heartbeat_answers(
    member: str | None, generation: int, group: str, code: ErrorCode
) -> None:
    world = World()
    (own,) = world.stable_group(1)
    assert world.heartbeat(member or own, generation, group=group) is code


@pytest.mark.parametrize("version", range(6))
def test_member_that_leaves_is_gone_at_once(version: int) -> None:
    world = World()
    leader, follower = world.stable_group(2)
    answer = world.leave((follower, None), version=version)
    assert answer.code is ErrorCode.NONE
    assert list(world.group.members) == [leader]
    assert world.heartbeat(leader, world.group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.leave((follower, None), version=version)
    code = again.response.members[0].error_code if version >= 3 else again.code
    assert code == ErrorCode.UNKNOWN_MEMBER_ID


def test_last_member_that_leaves_makes_the_group_empty_and_stored_so() -> None:
    world = World()
    (member,) = world.stable_group(1)
    world.leave((member, None))
    assert world.group.state == "Empty"
    stored = world.shard.stored.generations[GROUP]
    assert (stored.generation, stored.members, stored.protocol) == (2, (), None)


def test_batch_of_leavers_begins_one_rebalance() -> None:
    world = World()
    members = world.stable_group(3)
    generation = world.group.generation
    answer = world.leave((members[1], None), ("nobody", None), (members[2], None))
    codes = [entry.error_code for entry in answer.response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    world.join(members[0])
    assert world.group.generation == generation + 1


def test_leaving_frees_an_unused_member_id() -> None:
    world = World()
    (leader,) = world.stable_group(1)
    pending = world.join().response.member_id
    answer = world.join(leader)
    assert answer.is_parked
    world.leave((pending, None))
    assert answer.code is ErrorCode.NONE


def test_parked_join_of_a_member_that_leaves_is_answered() -> None:
    world = World()
    members = world.stable_group(2)
    parked = world.join(members[0])
    world.leave((members[0], None))
    assert parked.code is ErrorCode.UNKNOWN_MEMBER_ID
