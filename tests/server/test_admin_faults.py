"""Changes of topics while the metastore or the disk fails: what broke off is healed afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.config.alter import AlterOperation, ConfigChange
from broker.config.broker import BrokerSettings
from broker.config.group import GroupSettings
from broker.errors import ErrorCode, Refusal
from broker.metastore import keys
from broker.metastore.memory import MemoryMetastore
from broker.ports import (
    Condition,
    Delete,
    DiskFull,
    MetastoreFault,
    NewDirectory,
    NoDescriptor,
    Put,
)
from broker.runtime.clock import SystemClock
from broker.runtime.disk import SystemDisk, SystemFile
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from broker.runtime.worker import ProcessWorker
from broker.server.node import Broker
from broker.server.partition import Partition
from broker.server.topic_rules import WantedTopic
from broker.server.topic_store import read_topics


class FailingMetastore(MemoryMetastore):
    """Fails at one transaction, before or after it was carried out."""

    fails_in = -1
    is_done_first = False

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]
    ) -> int | None:
        self.fails_in -= 1
        if self.fails_in != 0:
            return await super().transact(conditions, writes)
        if self.is_done_first:
            await super().transact(conditions, writes)
        raise MetastoreFault("the metastore is away")


class FillingDisk(SystemDisk):
    """Full once `creations_left` files or directories of logs were created."""

    creations_left = 10**9
    fault: type[DiskFull] = DiskFull

    async def create(self, path: str) -> SystemFile:
        self.creations_left -= 1
        if self.creations_left < 0:
            raise DiskFull(path, "no space left on device")
        return await super().create(path)

    async def place_directories(self, parent: str, directories: Sequence[NewDirectory]) -> None:
        fitting = directories[: max(0, self.creations_left)]
        self.creations_left -= len(directories)
        await super().place_directories(parent, fitting)
        if len(fitting) < len(directories):
            raise self.fault(parent, "no space left on device")


@asynccontextmanager
async def serving(path: Path, store: MemoryMetastore) -> AsyncIterator[Broker]:
    settings = BrokerSettings(
        listeners="PLAINTEXT://127.0.0.1:0",
        hermes_metrics_port=-1,
        log_dir=str(path),
        group=GroupSettings(offsets_topic_num_partitions=1),
    )
    disk, worker = FillingDisk(str(path)), ProcessWorker()
    node = Broker(settings, disk, SystemClock(), SystemNetwork(), store, SystemIds(), worker)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
        worker.close()
        disk.close()


async def change(node: Broker, step: str) -> None:
    catalog = node.catalog
    topic = catalog.topic("t")
    if step == "create":
        await catalog.create_topic(WantedTopic("t", 2))
    elif step == "grow":
        await catalog.create_partitions("t", 3)
    elif step == "alter":
        await catalog.alter_topic_config(
            "t", [ConfigChange("retention.ms", AlterOperation.SET, "5")]
        )
    elif step == "broker":
        await catalog.alter_broker_config(
            None, [ConfigChange("num.partitions", AlterOperation.SET, "4")]
        )
    else:
        assert topic is not None
        await catalog.delete_topic(topic.topic_id)


async def assert_all_agree(node: Broker, store: MemoryMetastore) -> None:
    """The store, the image, the partitions and the directories say the same."""
    stored = {item.name: item for item in await read_topics(store, 0)}
    partition_keys = [entry.key for entry in await store.read_range(keys.PARTITIONS_PREFIX)]
    shown = {topic.name: topic for topic in node.catalog.topics()}
    assert set(stored) == set(shown)
    for name, topic in shown.items():
        assert topic.topic_id == stored[name].value.topic_id
        assert topic.partition_count == stored[name].value.partition_count
        assert dict(topic.overrides) == dict(stored[name].value.overrides)
        assert topic.version == stored[name].version
    wanted = {
        (topic.topic_id, state.index) for topic in shown.values() for state in topic.partitions
    }
    assert {(p.topic_id, p.index) for p in node.partitions.all()} == wanted
    assert len(partition_keys) == len(wanted)
    for partition in node.partitions.all():
        assert partition.settings == shown[partition.topic].settings
    assert sorted(node.disk.list_directory("topics")) == sorted(shown)


@pytest.mark.parametrize("is_done_first", [False, True])
@pytest.mark.parametrize("step", ["create", "grow", "alter", "broker", "delete"])
async def test_whatever_transaction_fails_the_next_change_heals(
    tmp_path: Path, step: str, is_done_first: bool
) -> None:
    for fails_in in range(1, 4):
        store = FailingMetastore()
        async with serving(tmp_path / str(fails_in), store) as node:
            if step != "create":
                await change(node, "create")
            store.fails_in, store.is_done_first = fails_in, is_done_first
            try:
                await change(node, step)
            except MetastoreFault:
                store.fails_in = -1
                await node.catalog.create_topic(WantedTopic("other", 1))
            await assert_all_agree(node, store)


async def test_the_image_is_what_a_restart_reads(tmp_path: Path) -> None:
    for fails_in in range(1, 4):
        store = FailingMetastore()
        path = tmp_path / str(fails_in)
        async with serving(path, store) as node:
            await change(node, "create")
            store.fails_in, store.is_done_first = fails_in, True
            with contextlib.suppress(MetastoreFault):
                await change(node, "delete")
                await change(node, "create")
            store.fails_in = -1
        async with serving(path, store) as node:
            await assert_all_agree(node, store)


async def refused(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(Refusal) as caught:
        await work
    assert caught.value.message
    return caught.value.code


@pytest.mark.parametrize("creations_left", [0, 1, 2, 3])
async def test_a_topic_that_does_not_fit_the_disk_is_not_there(
    tmp_path: Path, creations_left: int
) -> None:
    store = MemoryMetastore()
    async with serving(tmp_path, store) as node:
        assert isinstance(node.disk, FillingDisk)
        node.disk.creations_left = creations_left
        code = await refused(node.catalog.create_topic(WantedTopic("t", 4)))
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert node.catalog.topic("t") is None
        assert await store.read_range(keys.PARTITIONS_PREFIX) == []
        node.disk.creations_left = 10**9
        await node.catalog.create_topic(WantedTopic("t", 4))
        await assert_all_agree(node, store)


async def test_a_topic_for_which_no_descriptor_is_left_has_those_of_closed_segments_given_back(
    tmp_path: Path,
) -> None:
    store = MemoryMetastore()
    async with serving(tmp_path, store) as node:
        assert isinstance(node.disk, FillingDisk)
        await change(node, "create")
        partition = node.partitions.get("t", 0)
        assert partition is not None
        await write_record(partition)
        await partition.log.roll(node.clock.wall_ms())
        closed = partition.log.segments[0]
        assert closed.is_open, "whoever reads on finds it open"
        node.disk.creations_left, node.disk.fault = 0, NoDescriptor
        work = node.catalog.create_topic(WantedTopic("other", 1))
        assert await refused(work) == ErrorCode.KAFKA_STORAGE_ERROR
        assert not closed.is_open
        assert partition.log.active.is_open


async def test_a_topic_that_could_not_grow_for_a_full_disk_has_grown_by_the_next_change(
    tmp_path: Path,
) -> None:
    store = MemoryMetastore()
    async with serving(tmp_path, store) as node:
        assert isinstance(node.disk, FillingDisk)
        await change(node, "create")
        node.disk.creations_left = 0
        assert await refused(change(node, "grow")) == ErrorCode.KAFKA_STORAGE_ERROR
        topic = node.catalog.topic("t")
        assert topic is not None
        assert topic.partition_count == 2
        node.disk.creations_left = 10**9
        await node.catalog.create_topic(WantedTopic("other", 1))
        await assert_all_agree(node, store)


async def write_record(partition: Partition) -> None:
    written = asyncio.Event()
    partition.append_records([(b"k", b"v")], lambda _error: written.set())
    await written.wait()


async def test_leader_epochs_only_rise(tmp_path: Path) -> None:
    store = MemoryMetastore()
    epochs: list[int] = []
    for _ in range(3):
        async with serving(tmp_path, store) as node:
            if not epochs:
                await change(node, "create")
            partition = node.partitions.get("t", 1)
            assert partition is not None
            epochs.append(partition.leader_epoch)
            await write_record(partition)
    assert epochs == sorted(set(epochs))
    lost = MemoryMetastore()
    cluster = await store.read(keys.CLUSTER)
    topic = await store.read(keys.topic("t"))
    assert cluster is not None
    assert topic is not None
    await lost.transact([], [Put(cluster.key, cluster.value), Put(topic.key, topic.value)])
    async with serving(tmp_path, lost) as node:
        partition = node.partitions.get("t", 1)
        assert partition is not None
        assert partition.leader_epoch > epochs[-1], (
            "also when the metastore was restored from a backup"
        )


async def test_a_creation_killed_between_its_steps_is_complete_after_the_restart(
    tmp_path: Path,
) -> None:
    store = MemoryMetastore()
    async with serving(tmp_path, store) as node:
        await change(node, "create")
    broken = tmp_path / "topics" / "t" / "partition-01"
    (broken / "partition.json").unlink()
    segment = (broken / "00000000000000000000.log").rename(tmp_path / "kept.log")
    async with serving(tmp_path, store) as node:
        partition = node.partitions.get("t", 1)
        assert partition is not None
        assert partition.offline_reason is None
    (broken / "partition.json").unlink()
    segment.rename(broken / "00000000000000000000.log")
    async with serving(tmp_path, store) as node:
        partition = node.partitions.get("t", 1)
        assert partition is not None
        assert partition.is_offline, "segments without an owner are nobody's"


async def test_what_a_deleted_incarnation_left_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    store = MemoryMetastore()
    async with serving(tmp_path, store) as node:
        await change(node, "create")
        shutil.copytree(tmp_path / "topics" / "t", tmp_path / "kept")
        await change(node, "delete")
        shutil.copytree(tmp_path / "kept", tmp_path / "topics" / "t")
        await change(node, "create")
        await assert_all_agree(node, store)
    async with serving(tmp_path, store) as node:
        await assert_all_agree(node, store)


async def test_records_that_cannot_be_read_are_reported_once_and_the_partition_serves_on(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, MemoryMetastore()) as node:
        await node.catalog.create_topic(WantedTopic("t", 1))
        partition = node.partitions.get("t", 0)
        assert partition is not None
        await write_record(partition)
        await write_record(partition)
        (log_file,) = (tmp_path / "topics" / "t").rglob("*.log")
        log_file.write_bytes(b"\xff" * log_file.stat().st_size)
        for _ in range(3):
            with pytest.raises(Refusal) as caught:
                await partition.read_cold(0, 1_000, 2, at_least_one=True)
            assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert node.metrics.disk_faults_total.labels(kind="read").value == 1
        assert partition.offline_reason is None
        await write_record(partition)
        assert partition.high_watermark == 3
