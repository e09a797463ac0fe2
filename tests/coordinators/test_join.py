"""JoinGroup and the join barrier."""

from __future__ import annotations

import pytest

from broker.coordinators.group.limits import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBERS_MAX
from broker.errors import ErrorCode
from tests.coordinators.world import GROUP, World, subscription


def test_newcomer_must_come_back_with_the_id_it_was_given() -> None:
    world = World()
    first = world.join(client="app")
    assert first.code is ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id.startswith("app-")
    second = world.join(first.response.member_id)
    assert (second.code, second.response.generation_id) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("version", range(4))
def test_clients_before_version_4_join_at_once(version: int) -> None:
    world = World()
    answer = world.join(version=version)
    assert answer.code is ErrorCode.NONE
    assert answer.response.leader == answer.response.member_id


@pytest.mark.parametrize("version", range(10))
def test_group_of_every_join_version_becomes_stable_within_ten_seconds(version: int) -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    began = world.monotonic_ms
    members, answers = zip(*(world.enter(version=version) for _ in range(3)), strict=True)
    world.advance(9_000)
    assert {answer.code for answer in answers} == {ErrorCode.NONE}
    assert {answer.response.generation_id for answer in answers} == {1}
    world.settle(list(members))
    assert world.monotonic_ms - began < 10_000
    assert all(world.heartbeat(member, 1) is ErrorCode.NONE for member in members)


def test_version_0_uses_the_session_timeout_for_the_rebalance() -> None:
    world = World()
    leader, _ = world.enter(version=0, session_ms=7_000)
    assert world.group.members[leader].rebalance_timeout_ms == 7_000


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_join_that_cannot_be_is_refused_and_leaves_no_group(
    options: dict[str, object], code: ErrorCode
) -> None:
    world = World()
    assert world.join(**options).code is code
    assert not world.shard.groups


def test_member_without_a_common_protocol_is_refused() -> None:
    world = World()
    world.stable_group(1)
    assert world.join(protocols=[("sticky", b"")]).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_barrier_holds_until_every_known_member_has_joined_again() -> None:
    world = World()
    (leader,) = world.stable_group(1)
    newcomer, parked = world.enter()
    assert parked.is_parked
    assert world.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = world.join(leader)
    assert rejoined.response.generation_id == parked.response.generation_id == 2
    assert {m.member_id for m in rejoined.response.members} == {leader, newcomer}
    assert parked.response.members == []
    assert parked.response.leader == leader


def test_member_that_does_not_rejoin_in_time_is_out() -> None:
    world = World()
    lost, kept = world.stable_group(2, rebalance_ms=20_000, session_ms=60_000)
    changed = [("range", subscription("orders", "more"))]
    answer = world.join(kept, protocols=changed, rebalance_ms=20_000)
    world.advance(19_999)
    assert answer.is_parked
    world.advance(1)
    assert answer.response.leader == kept
    assert world.heartbeat(lost, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_first_rebalance_waits_for_its_delay_and_longer_while_members_arrive() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    _, first = world.enter()
    world.advance(2_000)
    _, second = world.enter()
    world.advance(1_500)
    assert first.is_parked
    world.advance(2_500)
    assert first.response.generation_id == second.response.generation_id == 1


def test_first_rebalance_is_not_prolonged_beyond_the_rebalance_timeout() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    _, first = world.enter(rebalance_ms=7_000)
    for _ in range(7):
        world.advance(1_000)
        world.enter(rebalance_ms=7_000)
    assert first.code is ErrorCode.NONE


def test_protocol_is_the_one_that_most_members_prefer_among_those_all_support() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    for names in (("a", "b"), ("b", "a", "c"), ("c", "b", "a")):
        world.enter(protocols=[(name, name.encode()) for name in names])
    world.advance(10_000)
    assert world.group.protocol == "b"


def test_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    generation = world.group.generation
    answer = world.join(follower)
    assert (answer.response.generation_id, answer.response.leader) == (generation, leader)
    assert answer.response.members == []
    assert world.group.state == "Stable"


@pytest.mark.parametrize("who", [0, 1])
def test_changed_metadata_begins_a_rebalance(who: int) -> None:
    world = World()
    members = world.stable_group(2)
    answer = world.join(members[who], protocols=[("range", subscription("other"))])
    assert answer.is_parked
    assert world.group.state == "PreparingRebalance"


def test_leader_that_rejoins_begins_a_rebalance() -> None:
    world = World()
    leader, _ = world.stable_group(2)
    assert world.join(leader).is_parked
    assert world.group.state == "PreparingRebalance"


def test_lost_join_answer_is_given_again() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    world.join(follower, protocols=[("range", subscription("new"))])
    world.join(leader)
    assert world.group.state == "CompletingRebalance"
    again = world.join(leader)
    assert again.response.generation_id == world.group.generation
    assert len(again.response.members) == 2


def test_second_join_of_a_parked_member_sends_the_first_back_to_retry() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    first = world.join(leader)
    second = world.join(leader)
    assert (first.code, second.is_parked) == (ErrorCode.REBALANCE_IN_PROGRESS, True)
    world.join(follower)
    assert second.code is ErrorCode.NONE


def test_a_thousand_joins_that_never_come_back_leave_the_group_as_it_was() -> None:
    world = World()
    members = world.stable_group(2)
    world.join(members[0])
    for _ in range(3 * PENDING_MEMBERS_MAX):
        assert world.join().code is ErrorCode.MEMBER_ID_REQUIRED
    assert list(world.group.members) == members
    assert len(world.group.pending) == PENDING_MEMBERS_MAX
    world.advance(61_000)
    assert not world.group.pending


def test_old_clients_that_disconnect_in_their_first_join_are_forgotten_in_time() -> None:
    world = World(group_size_max=500)
    world.stable_group(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    for _ in range(1_000):
        world.join(version=3)
    assert len(world.group.members) <= 501
    world.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert len(world.group.members) == 1


def test_unused_member_id_holds_the_barrier_only_for_a_session() -> None:
    world = World()
    (leader,) = world.stable_group(1)
    world.join()
    answer = world.join(leader)
    assert answer.is_parked
    world.advance(10_000)
    assert answer.code is ErrorCode.NONE


def test_group_takes_no_more_than_its_maximum() -> None:
    world = World(group_size_max=2)
    world.stable_group(2)
    assert world.enter()[1].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(world.group.members) == 2


def test_members_whose_metadata_would_not_fit_a_record_are_refused() -> None:
    world = World(group_record_bytes_max=10_000)
    world.stable_group(1)
    big = [("range", bytes(9_990))]
    assert world.enter(protocols=big)[1].code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_names_of_protocols_count_as_their_metadata_does() -> None:
    world = World(group_record_bytes_max=10_000)
    world.stable_group(1)
    many = [("range", b""), *((str(index) * 1_000, b"") for index in range(10))]
    assert world.enter(protocols=many)[1].code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_node_with_enough_groups_refuses_another() -> None:
    world = World()
    world.stable_group(1)
    world.may_create_group = False
    assert world.join(group="other").code is ErrorCode.POLICY_VIOLATION
    assert world.join(group=GROUP).code is ErrorCode.MEMBER_ID_REQUIRED


def test_nothing_is_left_of_a_group_that_nobody_entered() -> None:
    world = World()
    world.join()
    assert GROUP in world.shard.groups
    world.advance(10_000)
    assert not world.shard.groups
    assert world.shard.next_deadline_ms() is None
    assert not world.log


def test_long_client_ids_do_not_make_ids_that_the_protocol_cannot_carry() -> None:
    world = World()
    answer = world.join(client="x" * 32_767)
    assert len(answer.response.member_id) < 300


def test_timers_stay_few_however_fast_groups_come_and_go() -> None:
    world = World()
    for number in range(5_000):
        member = world.join(group=f"g{number}", session_ms=1_800_000).response.member_id
        world.leave((member, None), group=f"g{number}")
    assert len(world.shard._timers) <= 1_002
    assert not world.shard.groups
