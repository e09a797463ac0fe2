"""DescribeGroups, ListGroups, and where a group lives."""

from __future__ import annotations

import pytest

from broker.coordinators.group.placement import java_string_hash, partition_of
from broker.coordinators.group.subscription import subscribed_topics
from broker.errors import ErrorCode
from broker.wire.messages.list_groups import ListGroupsRequest
from tests.coordinators.world import GROUP, RANGE, World, subscription


def test_stable_group_shows_protocol_subscription_and_assignment() -> None:
    world = World()
    (member,) = world.stable_group(1)
    described = world.shard.describe(GROUP, 6)
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    (shown,) = described.members
    assert (shown.member_id, shown.client_host) == (member, "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (RANGE[0][1], member.encode())


def test_rebalancing_group_shows_its_members_only() -> None:
    world = World()
    members = world.stable_group(2)
    world.join(members[0])
    described = world.shard.describe(GROUP, 6)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_id for member in described.members] == members
    assert {member.member_metadata for member in described.members} == {b""}


@pytest.mark.parametrize("version", range(7))
def test_unknown_group_is_dead_and_from_version_6_an_error(version: int) -> None:
    described = World().shard.describe("none", version)
    assert described.group_state == "Dead"
    assert (described.error_code == ErrorCode.GROUP_ID_NOT_FOUND) is (version >= 6)
    assert (described.error_message is not None) is (version >= 6)


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], {"busy", "idle"}),
        (["Stable"], [], {"busy"}),
        (["empty"], ["Classic"], {"idle"}),
        (["STABLE", "Empty"], [], {"busy", "idle"}),
        ([], ["consumer"], set()),
        (["NoSuchState"], [], set()),
    ],
)
def test_list_passes_what_the_filters_name(
    states: list[str], types: list[str], expected: set[str]
) -> None:
    world = World()
    world.stable_group(1, group="busy")
    world.commit(1, group="idle")
    listed = world.shard.list_groups(ListGroupsRequest(states_filter=states, types_filter=types))
    assert {group.group_id for group in listed} == expected
    assert {group.group_type for group in listed} <= {"classic"}


def test_groups_are_placed_by_the_hash_of_java() -> None:
    known = {"": 0, "a": 97, "hello": 99_162_322, "ä": 228}
    assert {text: java_string_hash(text) for text in known} == known
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert partition_of("polygenelubricants", 50) == 0
    assert java_string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00
    assert all(0 <= partition_of(f"group-{number}", 50) < 50 for number in range(1_000))


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription("a", "b"), {"a", "b"}),
        (subscription(), set()),
        (subscription("a", tail=b""), {"a"}),
        (b"", None),
        (b"\x00\x01\x7f\xff\xff\xff", None),
        (b"\x00\x01\x00\x00\x00\x01\x00", None),
        (b"\x00\x01\x00\x00\x00\x01\x00\x05ab", None),
        (b"\x00\x01\x00\x00\x00\x01\x00\x02\xff\xff", None),
        (b"\x00\x01\x00\x00\x00\x01\xff\xff", None),
    ],
)
def test_topics_are_read_from_a_subscription_or_not_at_all(
    metadata: bytes, topics: set[str] | None
) -> None:
    assert subscribed_topics(metadata) == topics


def test_counts_for_metrics_follow_every_step() -> None:
    world = World()
    members = world.stable_group(3)
    world.commit(1, group="idle")
    assert {state.value: n for state, n in world.shard.states.items() if n} == {
        "Stable": 1,
        "Empty": 1,
    }
    world.leave(*((member, None) for member in members))
    assert {state.value for state, n in world.shard.states.items() if n} == {"Empty"}
    assert world.shard.rebalanced == [GROUP] * 4
