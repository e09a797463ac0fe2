"""The image of the cluster's topics and dynamic settings, and the only writer of both.

Each change is decided against the image, written to the metastore in one transaction that makes it
true, carried out on the partitions, and then shown: readers see it last. Changes run one at a time.
A change that broke off (metastore or disk failed, task cancelled) leaves the outcome unknown: the
next change first reads the store and heals what differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from broker.config.alter import ConfigChange, decide_alter, normalize
from broker.config.effective import topic_settings
from broker.config.setting import ConfigError, settings_of, to_kafka_value
from broker.config.topic import TopicSettings
from broker.errors import ErrorCode, Refusal
from broker.metastore import keys
from broker.metastore.keys import PartitionValue, UnreadableValue
from broker.model import TopicId
from broker.ports import DiskFault, MetastoreFault
from broker.server import topic_store
from broker.server.broker_configs import BrokerConfigs
from broker.server.limits import partition_files_max
from broker.server.metadata_answers import MetadataAnswers
from broker.server.producer_ids import ProducerIds
from broker.server.topic_rules import ClusterFacts, WantedTopic, decide_create, decide_grow
from broker.server.topics import (
    Topic,
    Topics,
    clashes,
    in_force,
    state_from_value,
    topic_from_store,
    with_overrides,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

_log = structlog.get_logger("hermes.catalog")
TOPIC_ROWS: Final = settings_of(TopicSettings)
TOPICS_PER_STEP: Final = 20
"""Topics whose settings are exchanged in one step of the loop."""
PROBLEMS_SHOWN_MAX: Final = 5
_MOVED_ON: Final = "was changed by another process: nothing was done, repeat the request"


class Catalog:
    """`await load()` and `await begin_leader_epochs(...)` once, before anything is served."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topics = Topics()
        self._lock = asyncio.Lock()
        self._is_stale = False
        self.broker_configs = BrokerConfigs(broker.metastore, broker.settings, broker.node_id)
        self.producer_ids = ProducerIds(broker.metastore)
        self.metadata_answers = MetadataAnswers()

    # The image.

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return self._topics.get_by_id(topic_id)

    def topics(self) -> tuple[Topic, ...]:
        """Every topic, internal ones included, in name order."""
        return self._topics.all()

    @property
    def partition_count(self) -> int:
        """Of all topics."""
        return self._topics.partition_count

    @property
    def generation(self) -> int:
        """Rises with every change that clients could see."""
        return self._topics.generation

    def touch(self) -> None:
        """Clients see something else beside the image (a partition went offline)."""
        self._topics.generation += 1

    # Start.

    async def load(self) -> None:
        """Read everything. Raises MetastoreFault, UnreadableValue."""
        await self._load_broker_configs()
        for stored in await topic_store.read_topics(self._broker.metastore, self._broker.node_id):
            self._topics.show(topic_from_store(stored, self._defaults))

    async def begin_leader_epochs(self, known: Mapping[tuple[bytes, int], int]) -> None:
        """Give every partition a leader epoch above all it ever had: max(stored, `known`) + 1.

        `known` has the highest epoch that each partition's log has seen, by topic id and index. For
        a node that is the only replica: every incarnation of it is a new leader (KIP-101). Raises
        MetastoreFault.
        """
        metastore, node_id = self._broker.metastore, self._broker.node_id
        changes: list[tuple[str, int, PartitionValue]] = []
        raised: list[topic_store.StoredTopic] = []
        for stored in await topic_store.read_topics(metastore, node_id):
            topic_id = stored.value.topic_id
            values = []
            for index, old in enumerate(stored.partitions):
                epoch = max(old.leader_epoch, known.get((topic_id, index), -1)) + 1
                values.append(
                    PartitionValue((node_id,), node_id, epoch, (node_id,), old.partition_epoch + 1)
                )
                if index % topic_store.PARTITIONS_PER_STEP == 0:
                    await asyncio.sleep(0)
            present = zip(values, stored.partition_versions, strict=True)
            changes += [
                (keys.partition(topic_id, index), version, value)
                for index, (value, version) in enumerate(present)
            ]
            raised.append(stored._replace(partitions=tuple(values)))
        if not await topic_store.write_partitions(metastore, changes):
            raise MetastoreFault("another process changes this broker's partitions: stop it first")
        for stored in raised:
            self._topics.show(topic_from_store(stored, self._defaults))

    # Changes.

    async def create_topic(
        self,
        wanted: WantedTopic,
        overrides: Mapping[str, str | None] | None = None,
        *,
        is_validation_only: bool = False,
    ) -> Topic:
        """The new topic, its partitions serving; only the decision (its id zero) with
        `is_validation_only`.

        Raises Refusal, MetastoreFault.
        """
        async with self._change():
            topic = self._decide_topic(wanted, overrides or {})
            return topic if is_validation_only else await self._insert(topic)

    async def ensure_topic(
        self, wanted: WantedTopic, overrides: Mapping[str, str | None] | None = None
    ) -> Topic:
        """The topic of that name, created when it is missing. Raises Refusal, MetastoreFault."""
        try:
            return self._topics.get(wanted.name) or await self.create_topic(wanted, overrides)
        except Refusal as refusal:
            topic = self._topics.get(wanted.name)
            if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS or topic is None:
                raise
            return topic

    async def delete_topic(self, topic_id: bytes) -> None:
        """The topic is gone for clients, its directories are in the trash.

        Raises Refusal, MetastoreFault.
        """
        async with self._change():
            topic = self._topics.get_by_id(topic_id)
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "this topic does not exist (any more)")
            await self._remove(topic)

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        is_validation_only: bool = False,
    ) -> None:
        """Grow a topic to `count` partitions. Raises Refusal, MetastoreFault."""
        async with self._change():
            topic = self._existing(name)
            decide_grow(name, topic.partition_count, count, assignments, self._facts())
            if not is_validation_only:
                await self._grow(topic, count)

    async def alter_topic_config(
        self,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        is_validation_only: bool = False,
        is_replacement: bool = False,
    ) -> None:
        """Change a topic's overrides, live; `is_replacement` begins with none. Raises Refusal (with
        every problem), MetastoreFault.
        """
        async with self._change():
            topic = self._existing(name)
            present_texts = {
                key: to_kafka_value(row.value_in(topic.settings)) for key, row in TOPIC_ROWS.items()
            }
            try:
                present = {} if is_replacement else topic.overrides
                overrides = decide_alter(TOPIC_ROWS, present, present_texts, changes)
                topic_settings(self._defaults, overrides)
            except ConfigError as error:
                raise refuse_config(error) from None
            if is_validation_only or overrides == topic.overrides:
                return
            changed = with_overrides(topic, self._defaults, overrides)
            metastore = self._broker.metastore
            self._configure(
                await self._write(
                    changed,
                    topic_store.update_topic(metastore, name, topic.version, changed.to_value()),
                )
            )

    async def alter_broker_config(
        self,
        broker_id: int | None,
        changes: Sequence[ConfigChange],
        *,
        is_validation_only: bool = False,
        is_replacement: bool = False,
    ) -> None:
        """Change settings of this broker, or with None of all brokers, live; `is_replacement`
        begins with none.

        Raises Refusal, MetastoreFault.
        """
        async with self._change():
            try:
                config = self.broker_configs.decide(
                    broker_id, changes, is_replacement=is_replacement
                )
            except ConfigError as error:
                raise refuse_config(error) from None
            await self._check_defaults(config.snapshot().topic_defaults)
            if is_validation_only:
                return
            await self.broker_configs.write(broker_id, config)
            self._broker.settings = config.snapshot()
            for count, topic in enumerate(self._topics.all(), start=1):
                self._configure(with_overrides(topic, self._defaults, topic.overrides))
                if count % TOPICS_PER_STEP == 0:
                    await asyncio.sleep(0)

    # Steps of a change; each runs under the lock.

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        async with self._lock:
            if self._is_stale:
                await self._heal()
            self._is_stale = True
            try:
                yield
            except Refusal as refusal:
                self._is_stale = refusal.code == ErrorCode.KAFKA_STORAGE_ERROR
                raise
            except MetastoreFault:
                self._broker.metrics.metastore_faults_total.add()
                raise
            self._is_stale = False

    def _decide_topic(self, wanted: WantedTopic, overrides: Mapping[str, str | None]) -> Topic:
        count = decide_create(wanted, self._facts())
        try:
            texts = normalize(TOPIC_ROWS, overrides)
            settings = topic_settings(
                self._defaults, in_force(texts, is_internal=wanted.is_internal)
            )
        except ConfigError as error:
            raise refuse_config(error) from None
        first = topic_store.new_partition(self._broker.node_id)
        partitions = tuple(state_from_value(index, first) for index in range(count))
        return Topic(wanted.name, partitions, texts, settings, wanted.is_internal)

    async def _check_defaults(self, defaults: TopicSettings) -> None:
        """New defaults of topics must go with the overrides of those there are. Raises Refusal."""
        if defaults == self._defaults:
            return
        problems: list[str] = []
        for count, topic in enumerate(self._topics.all(), start=1):
            found = clashes(topic, self._defaults, defaults)
            problems += [f"topic {topic.name}: {problem}" for problem in found]
            if len(problems) >= PROBLEMS_SHOWN_MAX:
                break
            if count % TOPICS_PER_STEP == 0:
                await asyncio.sleep(0)
        if problems:
            raise Refusal(ErrorCode.INVALID_CONFIG, "; ".join(problems[:PROBLEMS_SHOWN_MAX]))

    async def _insert(self, topic: Topic) -> Topic:
        topic = replace(topic, topic_id=TopicId(self._broker.ids.uuid()))
        values = [topic_store.new_partition(self._broker.node_id)] * topic.partition_count
        topic = await self._write(
            topic,
            topic_store.insert_topic(self._broker.metastore, topic.name, topic.to_value(), values),
        )
        try:
            await self._open(topic, first=0)
        except DiskFault as fault:
            await self._remove(topic)
            raise _refuse_storage(f"topic {topic.name} was not created", fault) from fault
        self._topics.show(topic)
        _log.info("topic created", topic=topic.name, partitions=topic.partition_count)
        return topic

    async def _grow(self, topic: Topic, count: int) -> None:
        value = topic_store.new_partition(self._broker.node_id)
        first = topic.partition_count
        added = tuple(state_from_value(index, value) for index in range(first, count))
        grown = replace(topic, partitions=topic.partitions + added)
        growth = topic_store.grow_topic(
            self._broker.metastore,
            topic.name,
            topic.version,
            grown.to_value(),
            [value] * len(added),
        )
        grown = await self._write(grown, growth)
        try:
            await self._open(grown, first)
        except DiskFault as fault:
            text = f"topic {topic.name} will get its new partitions once the disk works"
            raise _refuse_storage(text, fault) from fault
        self._topics.show(grown)
        _log.info("topic grown", topic=topic.name, partitions=count)

    async def _remove(self, topic: Topic) -> None:
        is_deleted = await topic_store.delete_topic(
            self._broker.metastore, topic.name, topic.version, topic.to_value()
        )
        if not is_deleted:
            raise MetastoreFault(f"topic {topic.name} {_MOVED_ON}")
        await self._forget(topic)
        _log.info("topic deleted", topic=topic.name)

    async def _forget(self, topic: Topic) -> None:
        self._topics.hide(topic.name)
        try:
            await self._broker.partitions.delete_topic(topic)
        except DiskFault as fault:
            _log.error(
                "a deleted topic's directories stay until the next start",
                topic=topic.name,
                fault=str(fault),
            )
        self._broker.groups.on_topic_deleted(topic.topic_id)

    async def _open(self, topic: Topic, first: int) -> None:
        await self._broker.partitions.place(topic, range(first, topic.partition_count))
        for index in range(first, topic.partition_count):
            await self._broker.partitions.create_partition(topic, index)
            await asyncio.sleep(0)  # its directory is there: it opens without waiting

    async def _write(self, topic: Topic, transaction: Awaitable[int | None]) -> Topic:
        version = await transaction
        if version is None:
            raise MetastoreFault(f"topic {topic.name} {_MOVED_ON}")
        return replace(topic, version=version)

    async def _heal(self) -> None:
        """Make partitions and image what the store says, after a change that broke off."""
        await self._load_broker_configs()
        stored = await topic_store.read_topics(self._broker.metastore, self._broker.node_id)
        wanted = {item.value.topic_id: topic_from_store(item, self._defaults) for item in stored}
        for topic in self._topics.all():
            if topic.topic_id not in wanted:
                await self._forget(topic)
        for topic in wanted.values():
            present = self._topics.get_by_id(topic.topic_id)
            first = present.partition_count if present is not None else 0
            try:
                await self._open(topic, first)
            except DiskFault as fault:
                raise _refuse_storage(f"topic {topic.name} is incomplete", fault) from fault
            self._configure(topic)

    async def _load_broker_configs(self) -> None:
        await self.broker_configs.load()
        try:
            self._broker.settings = self.broker_configs.snapshot()
        except ConfigError as error:
            raise UnreadableValue(f"dynamic settings of the brokers: {error}") from None

    def _configure(self, topic: Topic) -> None:
        self._topics.show(topic)
        self._broker.partitions.configure_topic(topic)

    @property
    def _defaults(self) -> TopicSettings:
        defaults: TopicSettings = self._broker.settings.topic_defaults
        return defaults

    def _existing(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
        return topic

    def _facts(self) -> ClusterFacts:
        return ClusterFacts(
            node_id=self._broker.node_id,
            topic_names=self._topics.names(),
            partition_count=self._topics.partition_count,
            partition_count_max=self._broker.settings.hermes_partitions_max,
            partition_file_count_max=partition_files_max(
                self._broker.disk.open_files_max(),
                self._broker.settings.hermes_descriptors_reserved,
            ),
            default_partition_count=self._broker.settings.num_partitions,
        )


def refuse_config(error: ConfigError) -> Refusal:
    """INVALID_CONFIG with every problem in one sentence each."""
    return Refusal(ErrorCode.INVALID_CONFIG, "; ".join(error.problems))


def _refuse_storage(text: str, fault: DiskFault) -> Refusal:
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{text}: {fault}")
