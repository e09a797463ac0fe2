"""The tables of docs/durability.md, cell by cell: where a record is when its answer leaves, and
what a kill and a power cut take. The broker is real, its disk is the simulated one, which knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from broker.config.alter import AlterOperation
from broker.errors import ErrorCode
from broker.log.names import SYNC_FAILED
from broker.ports import DiskFault
from broker.records.build import build_batch
from broker.records.iterate import iterate_batches, iterate_records
from broker.server.node import Broker
from broker.server.syncing import DIRECT, DIRECT_FILES_MAX, JOURNAL, SETTLE, WHOLE
from broker.simulator.disk import DiskImage, SimulatedFile
from broker.simulator.faults import Kept, PowerCut
from broker.simulator.inodes import Directory, Inode
from broker.simulator.recycling import create_topic
from broker.simulator.scenario import SETTINGS
from broker.simulator.session import ClientError, Session
from broker.simulator.world import BrokerHost, World, world_of
from broker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

VALUE = b"the record of this test"
DIRECTORY = "topics/t/partition-00"
LOG = "00000000000000000000.log"
ALL = -1
FETCH_VERSION = 11
PRODUCE_VERSION = 9
EVERY_UNSYNCED_BYTE = PowerCut(lost_name_probability=1.0, kept=Kept.NOTHING)
"""The worst that a power cut may take."""
SLOW_DEVICE_S = 2.0
ROUNDS_BEFORE = 10
"""Those that begin a journal, and then some in it."""
QUIET = {"log.retention.check.interval.ms": 3_600_000, "hermes.log.dir.min.free.bytes": 0}
"""Nothing but what the test does finds out about the disk."""


class Place(NamedTuple):
    """Where the record is."""

    is_in_page_cache: bool
    is_on_disk: bool


def place_of(image: DiskImage) -> Place:
    directory, file = image.find(DIRECTORY), image.find(f"{DIRECTORY}/{LOG}")
    if not (isinstance(directory, Directory) and isinstance(file, Inode)):
        return Place(is_in_page_cache=False, is_on_disk=False)
    is_named = directory.synced.get(LOG) is file
    return Place(VALUE in file.content, is_named and VALUE in file.synced)


class Site:
    """A broker on a machine, and one client."""

    def __init__(self, world: World, host: BrokerHost, session: Session) -> None:
        self.world = world
        self.host = host
        self.session = session

    @property
    def broker(self) -> Broker:
        """The one that serves."""
        assert self.host.broker is not None
        return self.host.broker

    def rounds(self, way: str) -> float:
        """Sync rounds of that way so far."""
        return self.broker.metrics.sync_rounds_total.labels(way=way).value

    async def create(self, durability: str, topic: str = "t", *, partitions: int = 1) -> None:
        settings = {"durability": durability}
        await create_topic(self.world, self.session, topic, partitions, settings)

    async def alter(self, durability: str) -> None:
        change = AlterableConfig(
            name="durability", config_operation=AlterOperation.SET, value=durability
        )
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (answer,) = (await self.session.ask(request, 1, timeout_ms=60_000)).responses
        assert answer.error_code == 0, answer.error_message

    async def produce(
        self,
        acks: int,
        topic: str = "t",
        *,
        partitions: int = 1,
        error: ErrorCode = ErrorCode.NONE,
        **options: int,
    ) -> None:
        """A record for each partition. Returns with the answer; with acks=0 when the request is
        with the network.
        """
        batch = bytes(build_batch([(None, VALUE)], timestamp_ms=1_750_000_000_000, **options))
        data = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
        request = ProduceRequest(
            acks=acks,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )
        if acks == 0:
            await self.session.tell(request, PRODUCE_VERSION)
            return
        response = await self.session.ask(request, PRODUCE_VERSION, timeout_ms=60_000)
        answers = response.responses[0].partition_responses
        assert [answer.error_code for answer in answers] == [error] * partitions

    async def read(self, *, max_wait_ms: int = 0) -> list[bytes]:
        """The values that a consumer gets; asks until the broker answers."""
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic="t", partitions=[wanted])],
        )
        while True:
            try:
                response = await self.session.ask(request, FETCH_VERSION, timeout_ms=60_000)
            except ClientError:
                await self.session.back_off()
                continue
            (partition,) = response.responses[0].partitions
            if partition.error_code == 0:
                batches = iterate_batches(memoryview(partition.records or b""))
                return [bytes(r.value or b"") for b in batches for r in iterate_records(b)]
            await self.session.back_off()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.001)

    def slow_down(self, seconds: float = SLOW_DEVICE_S) -> None:
        """What every operation of the device takes from now on."""
        faults = self.host.image.faults
        faults.latency_s_min = faults.latency_s_max = seconds

    async def crash(self, *, takes_power: bool) -> None:
        """The process is gone, and with the power all that no disk had confirmed; another starts
        by itself.
        """
        self.host.kill()
        if takes_power:
            self.host.image.cut_power(EVERY_UNSYNCED_BYTE)
        await self.until(lambda: self.host.is_serving)


def at_a_site(work: Callable[[Site], Awaitable[None]]) -> None:
    with world_of(7) as world:

        async def main() -> None:
            host = BrokerHost(world, {**SETTINGS, **QUIET})
            supervisor = world.loop.create_task(host.supervise())
            node = world.node("client")
            await world.loop.spawn(node.process, inside(host, Session(node)))
            supervisor.cancel()

        async def inside(host: BrokerHost, session: Session) -> None:
            site = Site(world, host, session)
            await site.until(lambda: host.is_serving)
            await work(site)

        world.run(lambda _world: main())
        assert world.findings == []


@pytest.mark.parametrize("durability", ["replicated", "fsync"])
def test_acks_0_the_producer_goes_on_while_the_record_is_in_memory(durability: str) -> None:
    async def work(site: Site) -> None:
        await site.create(durability)
        await site.produce(0)
        assert place_of(site.host.image) == (False, False), "it is under way"
        await site.until(lambda: place_of(site.host.image).is_in_page_cache)
        assert await site.read(max_wait_ms=30_000) == [VALUE]

    at_a_site(work)


@pytest.mark.parametrize("acks", [1, ALL])
def test_replicated_the_record_is_in_the_page_cache_at_the_answer_and_not_on_disk(
    acks: int,
) -> None:
    async def work(site: Site) -> None:
        await site.create("replicated")
        await site.produce(acks)
        assert place_of(site.host.image) == (True, False)
        assert await site.read() == [VALUE], "and visible"

    at_a_site(work)


@pytest.mark.parametrize("acks", [1, ALL])
def test_fsync_the_record_is_on_disk_at_the_answer(acks: int) -> None:
    async def work(site: Site) -> None:
        await site.create("fsync")
        site.slow_down()
        await site.produce(acks)
        assert place_of(site.host.image) == (True, True)
        assert await site.read() == [VALUE], "and visible"

    at_a_site(work)


@pytest.mark.parametrize("acks", [0, 1, ALL])
def test_fsync_nobody_sees_a_record_before_it_is_on_disk(acks: int) -> None:
    async def work(site: Site) -> None:
        await site.create("fsync")
        site.slow_down()
        async with asyncio.TaskGroup() as group:
            group.create_task(site.produce(acks))
            await site.until(lambda: place_of(site.host.image).is_in_page_cache)
            reading = Site(site.world, site.host, Session(site.session.node))
            assert await reading.read() == []
            assert place_of(site.host.image) == (True, False), "it was asked in time"
            assert await reading.read(max_wait_ms=30_000) == [VALUE], "a waiting reader is woken"
            assert place_of(site.host.image) == (True, True)

    at_a_site(work)


@pytest.mark.parametrize("durability", ["replicated", "fsync"])
@pytest.mark.parametrize("acks", [1, ALL])
def test_an_acknowledged_record_survives_a_kill(acks: int, durability: str) -> None:
    async def work(site: Site) -> None:
        await site.create(durability)
        await site.produce(acks)
        await site.crash(takes_power=False)
        assert await site.read(max_wait_ms=30_000) == [VALUE]

    at_a_site(work)


@pytest.mark.parametrize("durability", ["replicated", "fsync"])
@pytest.mark.parametrize("acks", [1, ALL])
def test_an_acknowledged_record_survives_a_clean_stop_and_then_a_power_cut(
    acks: int, durability: str
) -> None:
    async def work(site: Site) -> None:
        await site.create(durability)
        await site.produce(acks)
        site.host.wanted = False
        await site.host.stop()
        site.host.wanted = True
        await site.crash(takes_power=True)
        assert await site.read(max_wait_ms=30_000) == [VALUE]

    at_a_site(work)


@pytest.mark.parametrize("acks", [1, ALL])
def test_replicated_a_power_cut_may_take_an_acknowledged_record(acks: int) -> None:
    async def work(site: Site) -> None:
        await site.create("replicated")
        await site.produce(acks)
        await site.crash(takes_power=True)
        assert await site.read() == []

    at_a_site(work)


@pytest.mark.parametrize("acks", [1, ALL])
def test_fsync_a_power_cut_takes_nothing_that_was_acknowledged(acks: int) -> None:
    async def work(site: Site) -> None:
        await site.create("fsync")
        await site.produce(acks)
        await site.crash(takes_power=True)
        assert await site.read(max_wait_ms=30_000) == [VALUE]

    at_a_site(work)


def test_fsync_a_power_cut_takes_nothing_that_was_seen_whatever_its_acks() -> None:
    async def work(site: Site) -> None:
        await site.create("fsync")
        await site.produce(0)
        assert await site.read(max_wait_ms=30_000) == [VALUE]
        await site.crash(takes_power=True)
        assert await site.read(max_wait_ms=30_000) == [VALUE]

    at_a_site(work)


def test_fsync_what_recovery_found_is_on_disk_before_it_is_seen() -> None:
    """KAFKA-10101: killed between the write and the sync, read after the restart, power cut."""

    async def work(site: Site) -> None:
        await site.create("fsync")
        site.slow_down()
        await site.produce(0)
        await site.until(lambda: place_of(site.host.image).is_in_page_cache)
        site.slow_down(0.01)
        await site.crash(takes_power=False)
        seen = await site.read(max_wait_ms=30_000)
        assert place_of(site.host.image).is_on_disk == (seen == [VALUE])
        await site.crash(takes_power=True)
        assert await site.read(max_wait_ms=30_000) == seen == [VALUE]

    at_a_site(work)


async def check_that_one_restart_settles_it(site: Site) -> None:
    site.slow_down(0.01)
    await site.crash(takes_power=False)
    seen = await site.read(max_wait_ms=30_000)
    assert seen == [VALUE]
    assert site.host.image.find(f"{DIRECTORY}/{SYNC_FAILED}") is None
    await site.crash(takes_power=True)
    assert await site.read(max_wait_ms=30_000) == seen


def test_fsync_what_could_not_be_synced_is_on_disk_before_a_restart_shows_it() -> None:
    """The system keeps the bytes of a failed sync as if they were written: another sync says that
    all is well, and the next power cut takes them.
    """

    async def work(site: Site) -> None:
        await site.create("fsync")
        faults = site.host.image.faults
        site.slow_down()
        await site.produce(0)
        await site.until(lambda: place_of(site.host.image).is_in_page_cache)
        faults.error_probability = 1.0
        await site.until(lambda: site.host.image.find(f"{DIRECTORY}/{SYNC_FAILED}") is not None)
        faults.error_probability = 0.0
        await check_that_one_restart_settles_it(site)

    at_a_site(work)


def test_fsync_an_error_that_the_last_process_never_heard_of_needs_no_second_restart() -> None:
    """The system gives pages up in the background, or at the sync of another file; the process that
    wrote them is gone before it syncs. The first sync of the next one gets to hear of it.
    """

    async def work(site: Site) -> None:
        await site.create("fsync")
        site.slow_down()
        await site.produce(0)
        await site.until(lambda: place_of(site.host.image).is_in_page_cache)
        file = site.host.image.find(f"{DIRECTORY}/{LOG}")
        assert isinstance(file, Inode)
        file.fail_sync()
        file.owes_error = True
        await check_that_one_restart_settles_it(site)

    at_a_site(work)


@pytest.mark.parametrize("acks", [1, ALL])
@pytest.mark.parametrize(
    ("way", "partitions"),
    [(DIRECT, 1), (WHOLE, DIRECT_FILES_MAX + 1), (SETTLE, 3), (SETTLE, DIRECT_FILES_MAX + 1)],
)
def test_replicated_topics_do_not_wait_for_a_sync_beside_them(
    acks: int, way: str, partitions: int
) -> None:
    """Of a round's files, by `syncfs`, and of the files of a half of the journal, by either."""

    async def work(site: Site) -> None:
        await site.until(lambda: site.broker.disk.has_sync_all)
        await site.create("fsync", partitions=partitions)
        await site.create("replicated", "beside")
        if way == SETTLE:
            for _ in range(ROUNDS_BEFORE):
                await site.produce(ALL, partitions=partitions)
            assert site.rounds(JOURNAL) > 0
        before = site.rounds(way)

        def is_under_way() -> bool:
            if way == SETTLE:
                return bool(site.broker.journal.settling)
            return place_of(site.host.image) == (True, False)

        async def sync() -> None:
            while site.rounds(way) == before:
                await site.produce(ALL, partitions=partitions)

        site.slow_down()
        async with asyncio.timeout(300), asyncio.TaskGroup() as group:
            group.create_task(sync())
            await site.until(is_under_way)
            beside = Site(site.world, site.host, Session(site.session.node))
            began_s = site.world.loop.time()
            for _ in range(3):
                await beside.produce(acks, "beside")
            assert is_under_way(), "the device is still busy"
            assert site.world.loop.time() - began_s < 0.1

    at_a_site(work)


@pytest.mark.parametrize("acks", [1, ALL])
def test_fsync_a_repeated_batch_from_before_the_change_is_on_disk_at_its_answer(acks: int) -> None:
    async def work(site: Site) -> None:
        await site.create("replicated")
        await site.produce(acks, producer_id=7, producer_epoch=0, base_sequence=0)
        assert place_of(site.host.image) == (True, False)
        site.slow_down()
        await site.alter("fsync")
        assert place_of(site.host.image) == (True, False), "the device is slow"
        await site.produce(acks, producer_id=7, producer_epoch=0, base_sequence=0)
        assert place_of(site.host.image) == (True, True)
        assert await site.read() == [VALUE]

    at_a_site(work)


def test_a_half_written_batch_that_cannot_be_cut_off_takes_the_partition_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def truncate(file: SimulatedFile, _size: int) -> None:
        raise DiskFault(file.path, "injected")

    async def work(site: Site) -> None:
        await site.create("replicated")
        await site.produce(ALL)
        monkeypatch.setattr(SimulatedFile, "truncate", truncate)
        site.host.image.faults.is_full = True
        await site.produce(ALL, error=ErrorCode.KAFKA_STORAGE_ERROR)
        site.host.image.faults.is_full = False
        partition = site.broker.partitions.get("t", 0)
        assert partition is not None
        assert partition.is_offline, "metrics and the console name it"

    at_a_site(work)
