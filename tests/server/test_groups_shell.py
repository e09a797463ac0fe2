"""Group shards at work: what is acknowledged survives, what cannot be stored is refused."""

from __future__ import annotations

import asyncio

import pytest

from broker.client.failure import ClientError, ConnectionLost
from broker.coordinators.group.effects import Caller, Effect, Moment
from broker.coordinators.group.records import GroupStored, StoredMember, to_log
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode
from broker.server.groups.room import FULL_RETRY_MS
from broker.server.groups.shard import FULL, ShardState
from broker.simulator.session import Session
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.list_groups import ListGroupsRequest
from tests.server.group_world import Cluster, commit_request, join_request, simulate


def test_acknowledged_commit_and_generation_survive_a_kill() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("g")
        for offset in range(1, 6):
            assert await cluster.commit("g", offset, joined=joined) == 0
            await cluster.restart()
            assert await cluster.committed("g") == offset
        beat = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
        )
        assert (await cluster.ask(beat, 4)).error_code == 0

    simulate(scenario)


def test_zombie_is_refused_also_right_after_a_restart() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        zombie = await cluster.enter("g")
        rejoined = await cluster.join("g", 9, zombie.member_id)
        assert (await cluster.sync("g", rejoined)).error_code == 0
        assert await cluster.commit("g", 10, joined=rejoined) == 0
        await cluster.restart()
        assert await cluster.commit("g", 1, joined=zombie) == ErrorCode.ILLEGAL_GENERATION
        assert await cluster.committed("g") == 10

    simulate(scenario)


def test_commits_of_one_turn_share_an_append() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        before = cluster.host.image.append_count
        groups = cluster.broker.groups
        codes: list[int] = []
        for offset in range(100):
            request = commit_request("g", offset)
            groups.run(
                "g",
                codes.append,
                lambda shard, moment, request=request: shard.on_commit(
                    request, groups.find_topic, _caller(codes), moment
                ),
            )
        assert codes == []
        await cluster.until(lambda: len(codes) == 100)
        assert cluster.host.image.append_count == before + 1
        assert await cluster.committed("g") == 99

    simulate(scenario)


def test_commit_that_cannot_be_stored_is_refused_and_never_seen() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("g")
        assert await cluster.commit("g", 5, joined=joined) == 0
        cluster.host.image.faults.is_full = True
        assert await cluster.commit("g", 6, joined=joined) == FULL
        cluster.host.image.faults.is_full = False
        await cluster.ready()
        assert await cluster.committed("g") == 5
        await asyncio.sleep(FULL_RETRY_MS / 1000)
        assert await cluster.commit("g", 7, joined=joined) == 0
        assert await cluster.committed("g") == 7

    simulate(scenario)


def test_full_disk_refuses_what_would_be_stored_once_loaded_again_and_heals() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("g")
        assert await cluster.commit("g", 5, joined=joined) == 0
        shard = cluster.broker.groups.shard_of("g")
        assert shard is not None
        incarnation = shard.incarnation
        cluster.host.image.faults.is_full = True
        assert await cluster.commit("g", 6, joined=joined) == FULL
        await cluster.ready()
        beat = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
        )
        for _ in range(40):  # longer than the session and than the longest back-off
            await asyncio.sleep(1)
            assert await cluster.commit("g", 7, joined=joined) == FULL
            assert await cluster.committed("g") == 5
            assert (await cluster.ask(beat, 4)).error_code == 0
        assert (await cluster.join("g")).error_code == FULL
        assert shard.incarnation == incarnation + 1, "it was loaded once"
        cluster.host.image.faults.is_full = False
        await asyncio.sleep(FULL_RETRY_MS / 1000)
        assert await cluster.commit("g", 8, joined=joined) == 0
        assert await cluster.committed("g") == 8
        await cluster.restart()
        assert await cluster.committed("g") == 8

    simulate(scenario)


def test_sessions_that_ran_out_on_a_full_disk_end_when_there_is_space() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("g")
        cluster.host.image.faults.is_full = True
        await cluster.commit("g", 6, joined=joined)
        await cluster.ready()
        shard = cluster.broker.groups.shard_of("g")
        assert shard is not None
        incarnation = shard.incarnation
        await asyncio.sleep(60)
        assert shard.incarnation == incarnation
        assert len(shard.groups.groups["g"].members) == 1
        cluster.host.image.faults.is_full = False
        await asyncio.sleep(2 * FULL_RETRY_MS / 1000)
        assert not shard.groups.groups["g"].members

    simulate(scenario)


def test_reads_do_not_show_what_a_failed_append_lost() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        assert await cluster.commit("g", 5) == 0
        cluster.host.image.faults.is_full = True
        groups, outcomes = cluster.broker.groups, []
        groups.run(
            "g",
            outcomes.append,
            lambda shard, moment: shard.on_commit(
                commit_request("g", 6), groups.find_topic, _caller(outcomes), moment
            ),
        )
        groups.read("g", outcomes.append, lambda shard, _: len(list(shard.all_offsets())))
        assert outcomes == []
        await cluster.until(lambda: len(outcomes) == 2)
        assert outcomes == [FULL] * 2
        cluster.host.image.faults.is_full = False
        await cluster.ready()

    simulate(scenario)


def test_shard_on_a_failed_disk_is_unavailable_and_the_others_serve() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        cluster.host.image.faults.error_probability = 1.0
        assert await cluster.commit("g", 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.host.image.faults.error_probability = 0.0
        broken = cluster.broker.groups.shard_of("g")
        assert broken is not None
        await cluster.until(lambda: broken.state is ShardState.OFFLINE)
        assert await cluster.commit("g", 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        other = next(
            name
            for name in map(str, range(20))
            if cluster.broker.groups.shard_of(name) is not broken
        )
        assert await cluster.commit(other, 1) == 0
        listed = await cluster.ask(ListGroupsRequest(), 5)
        assert listed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [group.group_id for group in listed.groups] == [other]

    simulate(scenario)


def test_record_that_makes_no_sense_takes_its_shard_offline_and_nothing_else() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        assert await cluster.commit("g", 1) == 0
        shard = cluster.broker.groups.shard_of("g")
        assert shard is not None
        done: list[ErrorCode] = []
        shard.partition.append_records([(b"\0\1\0", b"\0\4")], done.append)
        await cluster.until(lambda: done == [ErrorCode.NONE])
        await cluster.restart()
        assert await cluster.commit("g", 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        states = [shard.state for shard in cluster.broker.groups.shards()]
        assert states.count(ShardState.OFFLINE) == 1
        assert states.count(ShardState.READY) == 3

    simulate(scenario)


def test_step_that_breaks_an_invariant_takes_its_shard_offline_and_nothing_else() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        await cluster.enter("g")
        parked = asyncio.ensure_future(cluster.join("g"))
        groups = cluster.broker.groups
        await cluster.until(lambda: member_count(cluster) == 2)
        with pytest.raises(AssertionError):
            groups.run("g", lambda _: None, _break_invariant)
        assert (await parked).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await cluster.commit("g", 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        states = [shard.state for shard in groups.shards()]
        assert states.count(ShardState.OFFLINE) == 1
        assert states.count(ShardState.READY) == 3
        await cluster.restart()
        assert await cluster.commit("other", 1) == 0
        assert {shard.state for shard in cluster.broker.groups.shards()} == {ShardState.READY}

    simulate(scenario)


def test_load_that_breaks_an_invariant_leaves_the_other_shards_loading() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        broken, *others = cluster.broker.groups.shards()
        key, value = to_log(GroupStored("g", "consumer", 1, "range", "m", 0, (_member("m"),) * 2))
        done: list[ErrorCode] = []
        broken.partition.append_records([(key, value)], done.append)
        await cluster.until(lambda: done == [ErrorCode.NONE])
        await cluster.restart()
        assert [shard.state for shard in cluster.broker.groups.shards()] == [
            ShardState.OFFLINE,
            *(ShardState.READY for _ in others),
        ]
        assert cluster.world.findings
        cluster.world.findings.clear()

    simulate(scenario)


def test_names_that_no_record_could_hold_end_the_connection_and_change_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        long = "x" * 32_768
        for request, version in (
            (commit_request(long, 1), 9),
            (join_request(long, 9), 9),
            (join_request("g", 9, group_instance_id=long), 9),
        ):
            with pytest.raises(ConnectionLost):
                await cluster.ask(request, version)
            cluster.session.close()
        assert not any(shard.groups.groups for shard in cluster.broker.groups.shards())
        longest = "x" * 32_767
        assert await cluster.commit(longest, 7) == 0
        joined = await cluster.join("g", group_instance_id=longest)
        assert (await cluster.sync("g", joined)).error_code == 0
        await cluster.restart()
        assert await cluster.committed(longest) == 7

    simulate(scenario)


def test_session_and_expiry_timers_run_by_themselves() -> None:
    settings: dict[str, object] = {
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 1_000,
    }

    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("g")
        assert await cluster.commit("g", 5, joined=joined) == 0
        await asyncio.sleep(9)
        assert cluster.broker.groups.groups_by_state()["Stable"] == 1
        await asyncio.sleep(2)
        assert cluster.broker.groups.groups_by_state()["Empty"] == 1
        await asyncio.sleep(57)
        assert await cluster.committed("g") == 5
        await asyncio.sleep(5)
        assert await cluster.committed("g") == -1
        assert cluster.broker.groups.group_count == 0
        await cluster.restart()
        assert cluster.broker.groups.group_count == 0

    simulate(scenario, settings)


def test_stopping_broker_answers_parked_joins() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        await cluster.enter("g")
        parked = asyncio.ensure_future(cluster.join("g"))
        await cluster.until(lambda: member_count(cluster) == 2)
        cluster.host.wanted = False
        stopping = asyncio.ensure_future(cluster.broker.stop())
        try:
            answer = await parked
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        except ClientError:
            pass  # closed before the answer was read: the client retries all the same
        await stopping

    simulate(scenario)


def test_old_clients_that_hang_up_in_their_first_join_are_no_members() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("g")
        other = Session(cluster.session.node)
        requests = [other.ask(join_request("g", 3), 3) for _ in range(50)]
        parked = [asyncio.ensure_future(request) for request in requests]
        await cluster.until(lambda: member_count(cluster) == 51)
        other.close()
        await cluster.until(lambda: member_count(cluster) == 1)
        await asyncio.gather(*parked, return_exceptions=True)
        rejoined = await cluster.join("g", 9, joined.member_id)
        assert [member.member_id for member in rejoined.members] == [joined.member_id]

    simulate(scenario)


def test_requests_are_told_to_wait_while_a_shard_loads() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        assert await cluster.commit("g", 5) == 0
        faults = cluster.host.image.faults
        faults.cold_read_probability, faults.latency_s_max = 1.0, 2.0
        cluster.host.kill()
        await cluster.until(lambda: cluster.host.is_serving)
        code = await cluster.commit("g", 6)
        assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await cluster.ready()
        assert await cluster.committed("g") == 5

    simulate(scenario)


def test_metrics_follow_what_groups_do() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        joined = await cluster.enter("g")
        assert await cluster.commit("g", 5, joined=joined) == 0
        assert await cluster.commit("g", 6, joined=joined) == 0
        metrics, groups = cluster.broker.metrics, cluster.broker.groups
        assert metrics.offset_commits_total.labels(group="g").value == 2
        assert metrics.group_rebalances_total.labels(group="g").value == 1
        assert list(groups.members_by_group()) == [("g", 1)]
        (position,) = groups.committed_offsets()
        assert (position.group, position.topic, position.partition) == ("g", "orders", 0)
        assert position.offset == 6
        assert position.commit_timestamp_ms > 0

    simulate(scenario)


def _caller(outcomes: list[int]) -> Caller:
    return Caller("client", "/127.0.0.1", 9, outcomes.append)


def _member(member_id: str) -> StoredMember:
    return StoredMember(member_id, None, "client", "/127.0.0.1", 60_000, 10_000, b"", b"")


def _break_invariant(_shard: GroupShard, _moment: Moment) -> list[Effect]:
    raise AssertionError


def member_count(cluster: Cluster) -> int:
    """Members over all groups, as the metrics see them."""
    return sum(count for _, count in cluster.broker.groups.members_by_group())
