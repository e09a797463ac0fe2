"""The delivery window in virtual time, where a millisecond is exact: waking, timers, clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.records.build import build_batch
from broker.server.delivery import WAKE_INTERVAL_MS, DeliveryWindow
from broker.simulator.checker import check
from broker.simulator.fetching import stamps_from
from broker.simulator.history import OK, Event
from broker.simulator.recycling import create_topic
from broker.simulator.scenario import SETTINGS
from broker.simulator.session import Session
from broker.simulator.world import BrokerHost, World, world_of
from broker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "rung"
DELAY_MS = 2_000
NETWORK_MS_MAX = 20
"""Both ways, and the turns of the loop in between."""
CONFIGS = {"message.timestamp.type": "LogAppendTime", "delivery.delay.ms": str(DELAY_MS)}
BATCH_BYTES = len(build_batch([(b"k", b"0000")], timestamp_ms=0))


class Rig:
    """A broker with one topic, and a client of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.host = BrokerHost(world, dict(SETTINGS))
        self.node = world.node("client")
        self.session = Session(self.node)

    @property
    def window(self) -> DeliveryWindow:
        assert self.host.broker is not None
        partition = self.host.broker.partitions.get(TOPIC, 0)
        assert partition is not None
        assert partition.window is not None
        return partition.window

    @property
    def timers(self) -> int:
        """Deadlines that wait in the whole broker."""
        assert self.host.broker is not None
        return len(self.host.broker.deadlines)

    async def put(self, *values: str) -> float:
        """One batch; when it was acknowledged, in virtual seconds."""
        records = [(b"k", value.encode()) for value in values]
        data = PartitionProduceData(index=0, records=bytes(build_batch(records, timestamp_ms=0)))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        answer = (await self.session.ask(request, 9)).responses[0].partition_responses[0]
        assert answer.error_code == 0
        return self.world.loop.time()

    async def fetch(
        self,
        offset: int,
        *,
        wait_ms: int = 60_000,
        min_bytes: int = 1,
        session: Session | None = None,
    ) -> Any:
        """The answer for the partition."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        asked = (session or self.session).ask(request, 11, timeout_ms=wait_ms + 5_000)
        return (await asked).responses[0].partitions[0]


def run(seed: int, scenario: Callable[[Rig], Awaitable[None]]) -> None:
    """Run `scenario` in a world of its own; what it raises is raised."""
    with world_of(seed) as world:
        rig = Rig(world)

        async def in_client() -> None:
            await create_topic(world, rig.session, TOPIC, 1, CONFIGS)
            await scenario(rig)

        async def main(_world: World) -> None:
            supervisor = world.loop.create_task(rig.host.supervise())
            await world.loop.spawn(rig.node.process, in_client())
            supervisor.cancel()
            await rig.host.stop()

        world.loop.run_until_complete(main(world))
        assert world.findings == []


@pytest.mark.parametrize("seed", range(5))
def test_a_waiting_fetch_wakes_when_its_record_comes_due(seed: int) -> None:
    async def scenario(rig: Rig) -> None:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(rig.fetch(0, session=Session(rig.node)))
            await asyncio.sleep(1)
            stored_s = await rig.put("a")
            answer = await waiting
        late_ms = (rig.world.loop.time() - stored_s) * 1000 - DELAY_MS
        assert -NETWORK_MS_MAX <= late_ms <= NETWORK_MS_MAX
        assert answer.high_watermark == 1
        assert answer.records

    run(seed, scenario)


@pytest.mark.parametrize("seed", range(5))
def test_a_record_comes_due_by_its_stamp_however_late_it_was_synced(seed: int) -> None:
    """Half a second from the write to the watermark, which the waiting fetch must not feel."""

    async def scenario(rig: Rig) -> None:
        rig.host.image.faults.latency_s_max = 1.0
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(rig.fetch(0, session=Session(rig.node)))
            await asyncio.sleep(0.2)
            await rig.put("a")
            answer = await waiting
        (stamp,) = stamps_from(answer, 0)
        late_ms = rig.node.clock.wall_ms() - stamp - DELAY_MS
        assert 0 <= late_ms <= NETWORK_MS_MAX

    run(seed, scenario)


def test_a_fetch_that_came_before_the_append_and_one_after_wake_alike() -> None:
    async def scenario(rig: Rig) -> None:
        times: list[float] = []

        async def wait() -> None:
            await rig.fetch(0, session=Session(rig.node))
            times.append(rig.world.loop.time())

        async with asyncio.TaskGroup() as group:
            group.create_task(wait())
            await asyncio.sleep(0.5)
            stored_s = await rig.put("a")
            await asyncio.sleep(1)
            group.create_task(wait())
        assert max(times) - min(times) <= NETWORK_MS_MAX / 1000
        assert abs(min(times) - stored_s - DELAY_MS / 1000) <= NETWORK_MS_MAX / 1000

    run(1, scenario)


def test_a_hundred_waiting_fetches_need_one_timer_for_records() -> None:
    """Each has the deadline of its own wait; the partition has one more, and none afterwards."""
    count = 100

    async def scenario(rig: Rig) -> None:
        await rig.put("a")
        before = rig.timers
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(rig.fetch(0, session=Session(rig.node)))
            await asyncio.sleep(0.5)
            assert rig.timers == before + count + 1
        assert rig.timers <= before
        await asyncio.sleep(1)
        assert rig.timers <= before

    run(2, scenario)


def test_without_a_waiting_fetch_there_is_no_timer() -> None:
    async def scenario(rig: Rig) -> None:
        before = rig.timers
        for _ in range(20):
            await rig.put("a")
        assert rig.timers <= before
        assert (await rig.fetch(0, wait_ms=0)).high_watermark == 0
        await asyncio.sleep(DELAY_MS / 1000)
        assert (await rig.fetch(0, wait_ms=0)).high_watermark == 20

    run(3, scenario)


def test_a_burst_that_comes_due_wakes_a_patient_fetch_a_bounded_number_of_times() -> None:
    """1,000 batches within a second: the fetch that wants all of them looks every
    10 ms, not for every batch.
    """

    async def scenario(rig: Rig) -> None:
        for number in range(1_000):
            await rig.put(f"{number:04}")
        answer = await rig.fetch(0, min_bytes=1_000 * BATCH_BYTES)
        assert answer.high_watermark == 1_000
        assert rig.host.broker is not None
        wakes = rig.host.broker.metrics.delivery_wake_delay_seconds.labels().count
        assert wakes <= rig.world.loop.time() * 1000 / WAKE_INTERVAL_MS

    run(4, scenario)


def test_a_clock_that_steps_back_hides_nothing_and_delays_the_rest() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.put("a")
        assert (await rig.fetch(0)).high_watermark == 1
        await rig.put("b")
        rig.world.wall.skew_ms -= 10_000
        assert (await rig.fetch(0)).high_watermark == 1
        began_s = rig.world.loop.time()
        answer = await rig.fetch(1)
        waited_s = rig.world.loop.time() - began_s
        assert answer.high_watermark == 2
        assert 10 < waited_s < 13

    run(5, scenario)


def test_a_clock_that_steps_forward_makes_records_due_for_the_next_fetch() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.put("a")
        rig.world.wall.skew_ms += DELAY_MS
        assert (await rig.fetch(0, wait_ms=0)).high_watermark == 1

    run(6, scenario)


def test_a_restart_takes_up_the_window_where_times_say() -> None:
    async def scenario(rig: Rig) -> None:
        stored_s = await rig.put("a")
        await asyncio.sleep(0.3)
        rig.host.kill()
        await asyncio.sleep(0.3)
        while not rig.host.is_serving:
            await asyncio.sleep(0.01)
        answer = await rig.fetch(0, session=Session(rig.node))
        assert answer.high_watermark == 1
        late_ms = (rig.world.loop.time() - stored_s) * 1000 - DELAY_MS
        assert abs(late_ms) <= NETWORK_MS_MAX

    run(7, scenario)


def test_cold_headers_hold_nobody_up_for_good() -> None:
    """Every read must wait for the device: the window is brought up to date off the loop."""

    async def scenario(rig: Rig) -> None:
        rig.host.image.faults.cold_read_probability = 1.0
        for number in range(20):
            await rig.put(f"{number:04}")
        answer = await rig.fetch(0, min_bytes=20 * BATCH_BYTES)
        assert answer.high_watermark == 20

    run(8, scenario)


# The checker's rules, each with a history that breaks it.


def watch(time_s: float, records: list[tuple[int, int]], **fields: Any) -> Event:
    """A watcher's read: (offset, stamp) of each record."""
    event = {
        "time": time_s,
        "id": 0,
        "operation": "watch",
        "kind": OK,
        "reader": "w@0",
        "topic": TOPIC,
        "partition": 0,
        "position": records[0][0] if records else 0,
        "records": [(offset, f"v{offset}") for offset, _ in records],
        "stamps": [stamp for _, stamp in records],
        "visible_end": records[-1][0] + 1 if records else 0,
        "asked_s": time_s,
        "incarnation": 1,
    }
    return {**event, **fields}


def window(delay_ms: int, ttl_ms: int) -> Event:
    head = {"time": 0.0, "id": 0, "operation": "window", "kind": OK, "topic": TOPIC, "partition": 0}
    return {**head, "delay_ms": delay_ms, "ttl_ms": ttl_ms}


def clock(time_s: float, skew_ms: int) -> Event:
    return {"time": time_s, "id": 0, "operation": "clock", "kind": OK, "skew_ms": skew_ms}


def rules_broken(*events: Event) -> set[str]:
    return {finding.rule for finding in check(events)} - {"nothing phantom"}


def test_the_checker_accepts_a_window_that_keeps_its_promises() -> None:
    reads = [watch(2, [(0, 500), (1, 900)]), watch(2.5, [(2, 1_400)])]
    assert rules_broken(window(1_000, 5_000), *reads) == set()


def test_the_checker_finds_a_record_before_its_time() -> None:
    early = watch(1.4, [(0, 500)])
    assert rules_broken(window(1_000, -1), early) == {"not before its time"}
    assert rules_broken(window(1_000, -1), clock(0.1, 100), early) == set()
    assert rules_broken(window(0, -1), early) == set()


def test_the_checker_finds_an_expired_record() -> None:
    late = watch(6, [(0, 500)])
    assert rules_broken(window(1_000, 5_000), late) == {"not after its end"}
    assert rules_broken(window(1_000, 5_000), {**late, "asked_s": 5.4}) == set()
    assert rules_broken(window(1_000, 5_000), clock(5.5, -9_000), late) == set()


def test_what_is_young_by_an_earlier_clock_keeps_what_follows_it() -> None:
    """Seeds 924 and 941: the clock went back, so later records have earlier stamps."""
    back = (window(0, 5_000), clock(0.1, 100_000), clock(1, 0))
    shown = [(1, 90_500), (2, 600)]
    assert rules_broken(*back, watch(7, shown)) == set()
    assert rules_broken(*back, watch(96, shown)) == {"not after its end"}
    assert rules_broken(*back, watch(7, [(0, 500), *shown])) == {"not after its end"}
    elsewhere = watch(7, [(0, 90_500)], topic="another", reader="other@0")
    assert rules_broken(*back, elsewhere, watch(7, [(1, 600)])) == {"not after its end"}


def test_the_checker_finds_a_record_that_was_passed_over() -> None:
    seen = watch(1, [(0, 500), (1, 600)], reader="other@0")
    passed = watch(3, [(1, 600)], position=0)
    assert rules_broken(window(0, 5_000), seen, passed) == {"only what is expired is passed"}
    assert rules_broken(window(0, -1), seen, passed) == {"only what is expired is passed"}
    assert rules_broken(window(0, 2_450), seen, passed) == set()


def test_the_checker_finds_a_window_that_moves_back() -> None:
    first, second = watch(1, [], visible_end=5), watch(2, [], visible_end=4)
    assert rules_broken(window(1, -1), first, second) == {"visible end never moves back"}
    assert rules_broken(window(1, -1), first, {**second, "incarnation": 2}) == set()
    above = watch(2, [(0, 1)], visible_end=0)
    assert rules_broken(window(1, -1), above) == {"visible end never moves back"}
