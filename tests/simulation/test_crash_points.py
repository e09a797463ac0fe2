"""Found by seeds, kept as scenarios: a kill inside every operation of a change, and other races."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.records.build import build_batch
from broker.simulator.checker import check
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.faults import Kept, PowerCut
from broker.simulator.inodes import Directory
from broker.simulator.producing import Lane, Target, obtain_producer_id
from broker.simulator.reading import EARLIEST, LATEST, list_offset, read_all
from broker.simulator.recycling import create_topic, delete_topic
from broker.simulator.scenario import SETTINGS
from broker.simulator.session import Session
from broker.simulator.world import BrokerHost, World, world_of

Change = Callable[[World, BrokerHost, Session], Awaitable[None]]
CRASH_POINTS = range(2, 26)
POWER_CUTS = (PowerCut(1.0, Kept.NOTHING), PowerCut(0.0, Kept.NOTHING), PowerCut())
PARTITIONS = 2


def crash_in(
    operation: int,
    prepare: Change,
    change: Change,
    verify: Change,
    cut: PowerCut | None = None,
    seed: int | None = None,
) -> None:
    """Kill the broker (or cut its power) inside the given awaited operation of `change`, 0: not at
    all; it starts again by itself.
    """
    with world_of(operation if seed is None else seed) as world:

        async def main() -> None:
            host = BrokerHost(world, dict(SETTINGS))
            supervisor = world.loop.create_task(host.supervise())
            node = world.node("admin")

            async def inside() -> None:
                session = Session(node)
                await prepare(world, host, session)
                host.image.faults.kill_at_operation = operation
                if cut is not None:
                    assert host.process is not None
                    host.process.on_killed.append(lambda: host.image.cut_power(cut))
                await change(world, host, session)
                host.image.faults.kill_at_operation = 0
                async with asyncio.timeout(60):
                    await verify(world, host, session)

            await world.loop.spawn(node.process, inside())
            supervisor.cancel()

        world.run(lambda _world: main())
        assert world.findings == []


async def serve(_world: World, host: BrokerHost, _session: Session) -> None:
    while not host.is_serving:
        await asyncio.sleep(0.1)


async def create(world: World, _host: BrokerHost, session: Session) -> None:
    await create_topic(world, session, "t", PARTITIONS, {})


async def serve_topic(world: World, host: BrokerHost, session: Session) -> None:
    await serve(world, host, session)
    await create(world, host, session)
    await write(world, host, session)


async def write(world: World, _host: BrokerHost, session: Session) -> None:
    """Until one batch is acknowledged in each partition."""
    identity = await obtain_producer_id(session)
    for partition in range(PARTITIONS):
        name = f"p{identity.number}:{partition}"
        lane = Lane(world, session, Target("t", "t", partition), name, identity, -1, 1)
        await lane.run_round(may_start=True)
        while lane.pending:
            await lane.run_round(may_start=False)


async def recreate(world: World, host: BrokerHost, session: Session) -> None:
    await delete_topic(world, session, "t")
    await create(world, host, session)


async def is_empty(_world: World, _host: BrokerHost, session: Session) -> None:
    for partition in range(PARTITIONS):
        for timestamp in (EARLIEST, LATEST):
            while (found := await list_offset(session, "t", partition, timestamp)) is None:
                await session.back_off()
            assert found == 0


async def has_all(world: World, host: BrokerHost, session: Session) -> None:
    await write(world, host, session)
    for partition in range(PARTITIONS):
        while not await read_all(world, session, "t", "t", partition):
            await session.back_off()


async def stop(_world: World, host: BrokerHost, _session: Session) -> None:
    host.wanted = False
    await host.stop()
    host.wanted = True


@pytest.mark.parametrize("operation", CRASH_POINTS)
def test_kill_inside_a_creation_leaves_a_topic_that_serves(operation: int) -> None:
    crash_in(operation, serve, create, is_empty)


@pytest.mark.parametrize("operation", CRASH_POINTS)
def test_kill_inside_a_recreation_never_shows_old_data(operation: int) -> None:
    crash_in(operation, serve_topic, recreate, is_empty)


@pytest.mark.parametrize("cut", POWER_CUTS)
@pytest.mark.parametrize("operation", CRASH_POINTS)
def test_power_cut_inside_a_recreation_never_shows_old_data(operation: int, cut: PowerCut) -> None:
    crash_in(operation, serve_topic, recreate, is_empty, cut)


@pytest.mark.parametrize("operation", CRASH_POINTS)
def test_kill_inside_a_stop_loses_nothing(operation: int) -> None:
    crash_in(operation, serve_topic, stop, has_all)


@pytest.mark.parametrize("seed", range(12))
def test_no_batch_of_a_new_producer_overtakes_one_that_the_worker_could_not_open(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 944: the first batch was refused for now, the second one stored."""
    monkeypatch.setattr("broker.simulator.producing.BIG_BATCH_PROBABILITY", 0.5)

    async def prepare(world: World, host: BrokerHost, session: Session) -> None:
        await serve(world, host, session)
        await create_topic(world, session, "t", 1, {"record.validation": "full"})
        host.image.faults.worker_death_probability = 0.8

    async def produce(world: World, host: BrokerHost, session: Session) -> None:
        identity = await obtain_producer_id(session)
        lane = Lane(world, session, Target("t", "t", 0), "p", identity, -1, 5)
        await lane.run_round(may_start=True)
        host.image.faults.worker_death_probability = 0.0
        while lane.pending:
            await lane.run_round(may_start=False)

    async def is_in_order(world: World, _host: BrokerHost, session: Session) -> None:
        while not await read_all(world, session, "t", "t", 0):
            await session.back_off()
        assert check(world.history.events) == []

    crash_in(0, prepare, produce, is_in_order, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_reads_of_many_segments_at_once_do_not_meet_half_an_index(seed: int) -> None:
    config = LogConfig(segment_bytes=600, index_interval_bytes=64)
    with world_of(seed) as world:
        node = world.node("reader")
        image = DiskImage(world.random_for("disk"))
        disk = SimulatedDisk(world.loop, node.process, image)

        async def fill() -> PartitionLog:
            log = await PartitionLog.create(
                disk,
                "topics/t/partition-00",
                topic_id=bytes(16),
                partition=0,
                topic="t",
                config=config,
                now_wall_ms=1,
            )
            for number in range(60):
                batch = memoryview(build_batch([(None, b"%04d" % number)], timestamp_ms=1))
                log.stage(batch, leader_epoch=0, now_wall_ms=1)
                log.flush()
                if log.needs_roll:
                    await log.roll(1)
            await log.close()
            lose_indexes()
            return await PartitionLog.open(disk, "topics/t/partition-00", config, 1)

        def lose_indexes() -> None:
            directory = image.find("topics/t/partition-00")
            assert isinstance(directory, Directory)
            for name in [each for each in directory.entries if each.endswith("idx")]:
                del directory.entries[name]

        async def main() -> None:
            log = await fill()
            assert len(log.segments) > 6

            async def read(offset: int) -> None:
                found = await log.read_cold(offset, 1, 60, at_least_one=True)
                assert found.next_offset == offset + 1

            async with asyncio.TaskGroup() as group:
                for offset in range(60):
                    group.create_task(read(offset))

        world.loop.run_until_complete(world.loop.spawn(node.process, main()))
