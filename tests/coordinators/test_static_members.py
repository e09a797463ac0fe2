"""Static members: they keep their place over a restart, and whoever was replaced is fenced."""

from __future__ import annotations

from broker.coordinators.group.classic import GroupState
from broker.errors import ErrorCode
from tests.coordinators.world import World, subscription


def static_group(world: World, count: int = 2, session_ms: int = 60_000) -> list[str]:
    members: list[str] = []
    for number in range(count):
        answer = world.join(instance=f"node-{number}", session_ms=session_ms)
        parked = [m for m in world.group.members.values() if m.parked_join is answer]
        members.append(parked[0].member_id if parked else answer.response.member_id)
        world.settle(members)
    return members


def test_static_member_joins_at_once_under_its_instance_id() -> None:
    world = World()
    answer = world.join(instance="node-7")
    assert answer.code is ErrorCode.NONE
    assert answer.response.member_id.startswith("node-7-")


def test_restarted_follower_gets_a_new_id_and_no_rebalance() -> None:
    world = World()
    leader, follower = static_group(world)
    generation = world.group.generation
    answer = world.join(instance="node-1")
    assert answer.response.generation_id == generation
    assert answer.response.leader == leader
    assert answer.response.member_id != follower
    assert not answer.response.skip_assignment
    synced = world.sync(answer.response.member_id, generation, instance="node-1")
    assert synced.response.assignment == follower.encode()


def test_restarted_member_whose_name_outgrows_the_record_makes_the_group_rebalance() -> None:
    world = World(group_record_bytes_max=2_000)
    static_group(world)
    stored = len(world.log)
    answer = world.join(instance="node-1", client="c" * 2_000)
    assert answer.is_parked
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert len(world.log) == stored, "a record that the log refuses would reload the shard"


def test_restarted_leader_of_version_9_skips_the_assignment() -> None:
    world = World()
    static_group(world)
    answer = world.join(instance="node-0", version=9)
    assert answer.response.skip_assignment
    assert answer.response.leader == answer.response.member_id
    assert len(answer.response.members) == 2


def test_restarted_leader_of_an_older_version_believes_that_it_follows() -> None:
    world = World()
    leader, _ = static_group(world)
    answer = world.join(instance="node-0", version=8)
    assert answer.response.leader == leader != answer.response.member_id
    assert not answer.response.skip_assignment
    assert answer.response.members == []
    synced = world.sync(answer.response.member_id, world.group.generation, instance="node-0")
    assert synced.response.assignment == leader.encode()


def test_replaced_member_is_fenced_everywhere() -> None:
    world = World()
    _, old = static_group(world)
    generation = world.group.generation
    new = world.join(instance="node-1").response.member_id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(old, generation, instance="node-1") is fenced
    assert world.sync(old, generation, instance="node-1").code is fenced
    assert world.join(old, instance="node-1").code is fenced
    assert world.commit(1, member_id=old, generation=generation, instance="node-1") is fenced
    assert world.leave((old, "node-1")).response.members[0].error_code == fenced
    assert world.heartbeat(new, generation, instance="node-1") is ErrorCode.NONE


def test_parked_requests_of_a_replaced_member_are_fenced() -> None:
    world = World()
    leader, follower = static_group(world)
    parked = world.join(leader, instance="node-0")
    replacement = world.join(instance="node-0")
    assert parked.code is ErrorCode.FENCED_INSTANCE_ID
    world.join(follower, instance="node-1")
    assert replacement.code is ErrorCode.NONE
    waiting = world.sync(follower, world.group.generation, instance="node-1")
    world.join(instance="node-1")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert world.group.state == "PreparingRebalance"


def test_restart_with_other_topics_begins_a_rebalance() -> None:
    world = World()
    static_group(world)
    answer = world.join(instance="node-1", protocols=[("range", subscription("other"))])
    assert answer.is_parked
    assert world.group.state == "PreparingRebalance"


def test_restart_that_merely_forgot_its_partitions_begins_none() -> None:
    world = World()
    static_group(world)
    forgetful = [("range", subscription("orders", tail=b"\0\0\0\0"))]
    answer = world.join(instance="node-1", protocols=forgetful)
    assert answer.code is ErrorCode.NONE
    assert world.group.state == "Stable"


def test_replacement_survives_a_restart_of_the_broker() -> None:
    world = World()
    static_group(world)
    new = world.join(instance="node-1").response.member_id
    generation = world.group.generation
    world.restart()
    assert world.heartbeat(new, generation, instance="node-1") is ErrorCode.NONE


def test_static_member_stays_through_a_rebalance_until_its_session_ends() -> None:
    world = World()
    leader, away = static_group(world, session_ms=100_000)
    world.join(leader, instance="node-0", session_ms=100_000)
    world.advance(60_000)
    assert world.group.state == "CompletingRebalance"
    assert away in world.group.members
    world.sync(leader, world.group.generation, {leader: b"x"}, instance="node-0")
    world.advance(30_000)
    world.heartbeat(leader, world.group.generation, instance="node-0")
    world.advance(10_000)
    assert away not in world.group.members


def test_static_member_that_missed_a_generation_rejoins_with_its_id() -> None:
    world = World()
    leader, away = static_group(world, session_ms=100_000)
    world.join(leader, instance="node-0", session_ms=100_000)
    world.advance(60_000)
    world.sync(leader, world.group.generation, {away: b"kept"}, instance="node-0")
    generation = world.group.generation
    assert world.heartbeat(away, generation - 1, instance="node-1") is ErrorCode.ILLEGAL_GENERATION
    answer = world.join(away, instance="node-1", session_ms=100_000)
    assert answer.response.generation_id == generation
    assert world.sync(away, generation).response.assignment == b"kept"


def test_when_only_absent_static_members_are_left_the_barrier_waits_for_their_sessions() -> None:
    world = World()
    leader, _ = static_group(world, session_ms=100_000)
    newcomer, parked = world.enter()
    world.leave((newcomer, None))
    assert parked.code is ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(90_000)
    assert world.group.state == "PreparingRebalance"
    assert leader in world.group.members
    world.advance(10_000)
    assert world.group.state == "Empty"


def test_operator_removes_a_static_member_by_its_instance_id() -> None:
    world = World()
    _, follower = static_group(world)
    answer = world.leave(("", "node-1"), ("", "unknown"))
    codes = [entry.error_code for entry in answer.response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert follower not in world.group.members


def test_unknown_instance_id_with_a_member_id_is_unknown() -> None:
    world = World()
    leader, _ = static_group(world)
    assert world.join(leader, instance="other").code is ErrorCode.UNKNOWN_MEMBER_ID
