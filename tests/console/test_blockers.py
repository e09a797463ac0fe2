"""What keeps a group from reading: each kind is found when it is there, and not when it is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hermes_console.live.blockers import REBALANCE_LONG_MS, REBALANCE_WINDOW_MS, REBALANCES_MIN
from hermes_console.live.clusterstate import ClusterState
from hermes_console.live.observation import (
    ClusterObserved,
    GroupObserved,
    MemberObserved,
    OffsetRange,
    TopicPartition,
)
from hermes_console.samples.snapshot import GroupDetail

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
OTHER = TopicPartition("payments", 0)


def member(name: str, *assignment: TopicPartition) -> MemberObserved:
    return MemberObserved(name, "", f"client-{name}", "10.0.0.1", assignment)


def look(
    at_s: float,
    *members: MemberObserved,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int] | None = None,
    state: str = "Stable",
    **kind: object,
) -> ClusterObserved:
    offsets = {one: OffsetRange((starts or {}).get(one, 0), end) for one, end in ends.items()}
    group = GroupObserved("g", state, "range", members, committed, **kind)  # type: ignore[arg-type]
    return ClusterObserved(
        at_ms=int(at_s * 1000),
        cluster_id="c",
        brokers=(),
        topic_ids={"orders": "1", "payments": "2"},
        partition_count=len(ends),
        offsets=offsets,
        groups=(group,),
    )


def watch(looks: Iterable[ClusterObserved]) -> GroupDetail:
    state = ClusterState()
    for one in looks:
        _, (detail,) = state.absorb(one)
    return detail


def kinds(detail: GroupDetail) -> list[str]:
    return [one.kind for one in detail.blockers]


def test_group_that_reads_is_blocked_by_nothing() -> None:
    looks = [
        look(
            at,
            member("a", FIRST, SECOND),
            committed={FIRST: at, SECOND: at},
            ends={FIRST: at + 3, SECOND: at},
        )
        for at in range(120)
    ]
    assert kinds(watch(looks)) == []


def test_waiting_records_without_a_member_are_told_of() -> None:
    detail = watch([look(0, committed={FIRST: 5}, ends={FIRST: 1_005}, state="Empty")])
    assert kinds(detail) == ["no-member"]
    assert detail.blockers[0].text == "No member is connected; 1,000 messages wait."


def test_member_that_stopped_polling_is_named_and_the_others_are_not() -> None:
    looks = [
        look(
            at,
            member("stuck", FIRST),
            member("fine", SECOND),
            committed={FIRST: 10, SECOND: 10 * at},
            ends={FIRST: 1_000, SECOND: 10 * at + 5},
        )
        for at in range(120)
    ]
    detail = watch(looks)
    assert kinds(detail) == ["silent-member"]
    assert "client-stuck on 10.0.0.1 holds orders-0" in detail.blockers[0].text
    assert kinds(watch(looks[:60])) == []


def test_partition_that_nobody_owns_is_told_of_with_or_without_a_commit() -> None:
    detail = watch([look(0, member("a", FIRST), committed={FIRST: 5}, ends={FIRST: 5, SECOND: 9})])
    assert kinds(detail) == ["no-owner"]
    assert "Nobody reads orders-1" in detail.blockers[0].text
    assert [one.partition for one in detail.partitions] == [0, 1]


def test_topic_that_no_member_subscribes_to_any_more_is_told_of() -> None:
    found = watch(
        [look(0, member("a", FIRST), committed={FIRST: 5, OTHER: 1}, ends={FIRST: 5, OTHER: 9})]
    )
    assert kinds(found) == ["no-owner"]
    assert "payments, which no member subscribes to" in found.blockers[0].text


def test_rebalancing_in_a_loop_is_told_of_and_forgotten_when_it_ends() -> None:
    def loop(at: int) -> ClusterObserved:
        owner = member(f"m{at // 10}", FIRST)
        return look(at, owner, committed={FIRST: at}, ends={FIRST: at})

    looks = [loop(at) for at in range(10 * REBALANCES_MIN + 1)]
    assert kinds(watch(looks)) == ["rebalance-loop"]
    assert kinds(watch(looks[:-2])) == []
    left = look(looks[-1].at_ms / 1000 + 1, committed={FIRST: 9}, ends={FIRST: 9}, state="Empty")
    assert kinds(watch([*looks, left])) == []
    later = [
        look(at, member("m3", FIRST), committed={FIRST: at}, ends={FIRST: at}) for at in (400, 401)
    ]
    assert looks[-1].at_ms + REBALANCE_WINDOW_MS < later[0].at_ms
    assert kinds(watch([*looks, *later])) == []


def test_one_rebalance_that_samples_saw_counts_once() -> None:
    states = ["Stable", "PreparingRebalance", "CompletingRebalance", "Stable"] * 2
    looks = [
        look(
            at,
            member(f"m{(at + 2) // 4}", FIRST),
            committed={FIRST: at},
            ends={FIRST: at},
            state=state,
        )
        for at, state in enumerate(states)
    ]
    assert kinds(watch(looks)) == []


def test_rebalance_that_does_not_end_is_told_of() -> None:
    looks = [
        look(at, committed={FIRST: 1}, ends={FIRST: 9}, state="PreparingRebalance")
        for at in range(REBALANCE_LONG_MS // 1000 + 1)
    ]
    assert kinds(watch(looks)) == ["rebalance-long"]
    assert kinds(watch(looks[:-1])) == []


def test_records_that_were_deleted_unread_are_counted() -> None:
    detail = watch(
        [look(0, member("a", FIRST), committed={FIRST: 5}, ends={FIRST: 50}, starts={FIRST: 30})]
    )
    assert kinds(detail) == ["lost-records"]
    assert detail.blockers[0].text == (
        "25 messages of orders-0 were deleted, or expired, before it read them."
    )


def test_commit_beyond_the_end_is_told_of() -> None:
    found = watch([look(0, member("a", FIRST), committed={FIRST: 50}, ends={FIRST: 5})])
    assert kinds(found) == ["beyond-end"]


def test_group_whose_members_cannot_be_seen_is_not_called_stopped() -> None:
    detail = watch(
        [look(0, committed={FIRST: 5}, ends={FIRST: 50}, kind="consumer", is_hidden=True)]
    )
    assert kinds(detail) == ["hidden-members"]
    assert detail.summary.verdict.value == "fine"


def test_blockers_survive_the_database() -> None:
    detail = watch([look(0, committed={FIRST: 5}, ends={FIRST: 1_005}, state="Empty")])
    assert GroupDetail.from_text(detail.to_text()) == detail
