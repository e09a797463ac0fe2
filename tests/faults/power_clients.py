"""Clients that go on over every loss of power, each a thread with a connection of its own: what
they asked and were told goes into one history, which the simulator's checker judges.

A connection that breaks leaves what was asked open (`info`); idempotent producers ask again until
they know.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from broker.errors import RETRIABLE, ErrorCode
from broker.records.iterate import iterate_batches, iterate_records
from broker.simulator.history import FAIL, INFO, OK, Event, History
from broker.wire import api
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.messages.fetch import PartitionData
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.support.wire_client import WireClient, batch_of

PAUSE_S: Final = 0.02
REQUEST_TIMEOUT_S: Final = 20.0
WINDOW: Final = 4
"""Batches of one producer on their way."""
RECORDS_MAX: Final = 8
VALUE_BYTES: Final = 300
EARLIEST, LATEST = -2, -1
TOPICS_KEPT: Final = 3
_UNDECIDED: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT})


class Ledger:
    """What all clients share: the history, and what must never happen. Thread-safe."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.history = History()
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.is_stopping = threading.Event()
        self.is_dark = threading.Event()
        self._guard = threading.Lock()
        self._began_s = time.monotonic()

    def invoke(self, operation: str, **fields: Any) -> int:
        with self._guard:
            return self.history.invoke(self._now_s(), operation, **fields)

    def end(self, identity: int, kind: str, operation: str, **fields: Any) -> None:
        with self._guard:
            self.history.end(self._now_s(), identity, kind, operation, **fields)

    def record(self, operation: str, **fields: Any) -> None:
        with self._guard:
            self.history.record(self._now_s(), operation, **fields)

    def events(self) -> list[Event]:
        """Of the history, so far."""
        with self._guard:
            return list(self.history.events)

    def count(self, what: str, number: int = 1) -> None:
        with self._guard:
            self.counts[what] += number

    def find(self, text: str) -> None:
        """A broken promise that no rule of the checker knows."""
        with self._guard:
            self.findings.append(text)

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s


class PoweredClient(WireClient):
    """Hears nothing from the moment on at which the power goes. ext4 takes up to some tenths of a
    second to stop, and a sync that is under way then may report success for what is lost (62 of
    32,032 did; of those that ended before, none): a machine without power would not have answered.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger.port, REQUEST_TIMEOUT_S)
        self._is_dark = ledger.is_dark

    def receive(self) -> Any:
        message = super().receive()
        if self._is_dark.is_set():
            text = "the power is gone"
            raise ConnectionError(text)
        return message


class Customer:
    """Does `step` after `step` in a thread, each on a connection that works; `lost` when it
    broke.
    """

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)
        self.ledger = ledger
        self.name = name
        self.random = Random(name)
        self._client: WireClient | None = None

    def run(self) -> None:
        """Until the ledger says stop and nothing has to be asked again."""
        try:
            while not (self.ledger.is_stopping.is_set() and self.is_idle()):
                try:
                    if self._client is None:
                        self._client = PoweredClient(self.ledger)
                        self.connected(self._client)
                    self.step(self._client)
                except OSError:
                    self._drop()
                time.sleep(PAUSE_S * self.random.random())
        except BaseException as error:
            self.ledger.find(f"{self.name} ended by {error!r}")
            raise
        finally:
            self._drop()

    def connected(self, client: WireClient) -> None:
        """On every new connection. Raises OSError."""

    def step(self, client: WireClient) -> None:
        """One round. Raises OSError when the connection breaks."""
        raise NotImplementedError

    def lost(self) -> None:
        """Whatever was asked and not answered stays open."""

    def is_idle(self) -> bool:
        """Whether nothing has to be asked again."""
        return True

    def done(self, what: str, number: int = 1) -> None:
        """Count what was acknowledged, and by whom."""
        self.ledger.count(what, number)
        self.ledger.count(f"by {self.name}", number)

    def _drop(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None
            self.lost()


@dataclass(slots=True)
class Batch:
    """Values with the ids of their sends."""

    values: list[str]
    ids: list[int]
    first_sequence: int


class PowerProducer(Customer):
    """Sends to one partition, `WINDOW` batches at a time, acks all or the leader's."""

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        topic: str,
        partition: int,
        *,
        acks: int = -1,
        is_idempotent: bool = False,
    ) -> None:
        super().__init__(ledger, name)
        self.place = {"topic": topic, "partition": partition}
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._identity: tuple[int, int] | None = None
        self._pending: list[Batch] = []
        self._sequence = 0

    def is_idle(self) -> bool:
        return not self._pending

    def lost(self) -> None:
        if not self._is_idempotent:
            self._give_up(self._pending, INFO)

    def connected(self, client: WireClient) -> None:
        if self._is_idempotent and self._identity is None:
            answer = client.call(
                api.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None)
            )
            if answer.error_code == ErrorCode.NONE:
                self._identity = (answer.producer_id, answer.producer_epoch)

    def step(self, client: WireClient) -> None:
        if self._is_idempotent and self._identity is None:
            self.connected(client)
            return
        while len(self._pending) < WINDOW and not self.ledger.is_stopping.is_set():
            self._pending.append(self._new_batch())
        batches = list(self._pending)
        for batch in batches:
            client.send_batch(
                self.place["topic"],
                self._encode(batch),
                partition=int(self.place["partition"]),
                acks=self._acks,
            )
        is_in_order = True
        for batch in batches:
            answer = client.receive().responses[0].partition_responses[0]
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                self._acknowledge(batch, answer.base_offset)
            else:
                self._refused(batch, code, is_in_order=is_in_order)
                is_in_order = False
                time.sleep(PAUSE_S)

    def _new_batch(self) -> Batch:
        values, ids = [], []
        for _ in range(self.random.randint(1, RECORDS_MAX)):
            value = f"{self.name}-{self._sequence + len(values)}"
            fields = {
                "producer": self.name,
                "is_idempotent": self._is_idempotent,
                "value": value,
                "sequence": self._sequence + len(values),
            }
            values.append(value)
            ids.append(self.ledger.invoke("send", **self.place, **fields))
        batch = Batch(values, ids, self._sequence)
        self._sequence += len(values)
        return batch

    def _encode(self, batch: Batch) -> bytearray:
        records: list[tuple[bytes | None, bytes | None]] = [
            (value.encode(), value.encode().ljust(VALUE_BYTES, b".")) for value in batch.values
        ]
        if self._identity is None:
            return batch_of(records)
        producer_id, epoch = self._identity
        return batch_of(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.first_sequence,
        )

    def _acknowledge(self, batch: Batch, base_offset: int) -> None:
        self._pending.remove(batch)
        for delta, identity in enumerate(batch.ids):
            self.ledger.end(identity, OK, "send", offset=base_offset + delta)
        self.done("records acknowledged", len(batch.ids))

    def _refused(self, batch: Batch, code: ErrorCode, *, is_in_order: bool) -> None:
        """An idempotent producer sends the batch again; one behind another refused batch is out of
        order by that.
        """
        if code not in RETRIABLE and (is_in_order or not self._is_idempotent):
            self.ledger.find(f"{self.name}: a valid batch is refused: {code.name}")
            self._give_up([batch], FAIL)
        elif not self._is_idempotent:
            self._give_up([batch], INFO if code in _UNDECIDED else FAIL)

    def _give_up(self, batches: list[Batch], kind: str) -> None:
        for batch in list(batches):
            self._pending.remove(batch)
            for identity in batch.ids:
                self.ledger.end(identity, kind, "send")


class PowerReader(Customer):
    """Reads one partition from its start on, over all cuts."""

    def __init__(self, ledger: Ledger, name: str, topic: str, partition: int) -> None:
        super().__init__(ledger, name)
        self._topic = topic
        self._partition = partition
        self._position = 0

    def step(self, client: WireClient) -> None:
        data = client.fetch(self._topic, self._position, partition=self._partition, max_wait_ms=50)
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.ledger.find(
                f"{self.name}: {self._position} is out of range, the watermark is "
                f"{data.high_watermark}"
            )
            self._position = max(list_offset(client, self._topic, self._partition, EARLIEST), 0)
        if code is not ErrorCode.NONE:
            return
        found = records_of(data, self._position)
        self.ledger.record(
            "poll",
            reader=self.name,
            topic=self._topic,
            partition=self._partition,
            position=self._position,
            records=found,
            high_watermark=data.high_watermark,
        )
        if found:
            self._position = found[-1][0] + 1
            self.done("records read", len(found))


class PowerCommitter(Customer):
    """Commits rising offsets for a group without members, and reads them back."""

    def __init__(self, ledger: Ledger, name: str, topic: str) -> None:
        super().__init__(ledger, name)
        self._topic = topic
        self._offset = 0
        self._open: tuple[int, str] | None = None

    def connected(self, client: WireClient) -> None:
        client.call(api.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=self.name))

    def lost(self) -> None:
        if self._open is not None:
            identity, operation = self._open
            self._open = None
            self.ledger.end(identity, INFO, operation)

    def step(self, client: WireClient) -> None:
        place = {"group": self.name, "topic": self._topic, "partition": 0}
        self._offset += self.random.randint(1, 3)
        identity = self.ledger.invoke("commit", offset=self._offset, **place)
        self._open = (identity, "commit")
        wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._offset)
        request = OffsetCommitRequest(
            group_id=self.name,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[wanted])],
        )
        answer = client.call(api.OFFSET_COMMIT, 8, request).topics[0].partitions[0]
        code = ErrorCode(answer.error_code)
        kind = OK if code is ErrorCode.NONE else INFO if code in _UNDECIDED else FAIL
        self._open = None
        self.ledger.end(identity, kind, "commit")
        if kind == OK:
            self.done("offsets committed")
        if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.connected(client)
        self.read_back(client)

    def read_back(self, client: WireClient) -> bool:
        """Ask for the committed offset. Whether there was an answer."""
        place = {"group": self.name, "topic": self._topic, "partition": 0}
        identity = self.ledger.invoke("committed", **place)
        self._open = (identity, "committed")
        asked = OffsetFetchRequestTopic(name=self._topic, partition_indexes=[0])
        answer = client.call(
            api.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=self.name, topics=[asked])
        )
        self._open = None
        if answer.error_code:
            self.ledger.end(identity, FAIL, "committed")
            return False
        offset = answer.topics[0].partitions[0].committed_offset
        self.ledger.end(identity, OK, "committed", offset=offset)
        return True


class PowerTrimmer(Customer):
    """Moves the start of a partition up now and then."""

    def __init__(self, ledger: Ledger, name: str, topic: str) -> None:
        super().__init__(ledger, name)
        self._topic = topic
        self._open: int | None = None

    def lost(self) -> None:
        if self._open is not None:
            self.ledger.end(self._open, INFO, "trim")
            self._open = None

    def step(self, client: WireClient) -> None:
        time.sleep(PAUSE_S)
        start = list_offset(client, self._topic, 0, EARLIEST)
        end = list_offset(client, self._topic, 0, LATEST)
        if end <= start:
            return
        place = {"topic": self._topic, "partition": 0}
        offset = self.random.randint(start, end)
        self._open = self.ledger.invoke("trim", offset=offset, **place)
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=self._topic, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
        answer = client.call(api.DELETE_RECORDS, 2, request).topics[0].partitions[0]
        identity, self._open = self._open, None
        if answer.error_code:
            self.ledger.end(identity, INFO, "trim")
            return
        self.ledger.end(identity, OK, "trim", start=answer.low_watermark, **place)
        self.done("starts moved")


class TopicMaker(Customer):
    """Makes topics, writes one batch to each, deletes old ones. `made` must exist, `deleted` must
    not.
    """

    def __init__(self, ledger: Ledger, name: str, settings: Mapping[str, str]) -> None:
        super().__init__(ledger, name)
        self.made: dict[str, None] = {}
        self.deleted: set[str] = set()
        self._settings = list(settings.items())
        self._count = 0
        self._open: list[int] = []

    def lost(self) -> None:
        for identity in self._open:
            self.ledger.end(identity, INFO, "send")
        self._open.clear()

    def step(self, client: WireClient) -> None:
        time.sleep(5 * PAUSE_S)
        name = f"made-{self._count}"
        self._count += 1
        if not self._make(client, name):
            return
        self.made[name] = None
        self.done("topics made")
        place = {"topic": name, "partition": 0}
        fields = {"producer": name, "is_idempotent": False, "value": name, "sequence": 0}
        self._open.append(self.ledger.invoke("send", **place, **fields))
        answer = client.produce(name, [(name.encode(), name.encode())])
        identity = self._open.pop()
        if answer.error_code:
            self.ledger.end(identity, INFO, "send")
        else:
            self.ledger.end(identity, OK, "send", offset=answer.base_offset)
        while len(self.made) > TOPICS_KEPT:
            self._delete(client, next(iter(self.made)))

    def _make(self, client: WireClient, name: str) -> bool:
        """Whether it was acknowledged; else nobody knows."""
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in self._settings]
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        (answer,) = client.call(api.CREATE_TOPICS, 7, request).topics
        return not answer.error_code

    def _delete(self, client: WireClient, name: str) -> None:
        del self.made[name]
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        (answer,) = client.call(api.DELETE_TOPICS, 6, request).responses
        if not answer.error_code:
            self.deleted.add(name)
            self.ledger.count("topics deleted")


def list_offset(client: WireClient, topic: str, partition: int, timestamp: int) -> int:
    """The offset at EARLIEST or LATEST; -1 when the partition does not tell."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    answer = client.call(api.LIST_OFFSETS, 6, request).topics[0].partitions[0]
    return -1 if answer.error_code else int(answer.offset)


def records_of(data: PartitionData, position: int) -> list[tuple[int, str]]:
    """[(offset, value)] from `position` on."""
    content = data.records
    assert content is None or isinstance(content, bytes | bytearray | memoryview)
    return [
        (record.offset, (record.key or b"").decode())
        for batch in iterate_batches(content or b"")
        for record in iterate_records(batch)
        if record.offset >= position
    ]


def read_everything(ledger: Ledger, client: WireClient, topic: str, partition: int) -> None:
    """The partition's records as they are in the end."""
    start = position = list_offset(client, topic, partition, EARLIEST)
    records: list[tuple[int, str]] = []
    while True:
        data = client.fetch(topic, position, partition=partition)
        assert data.error_code == 0, f"{topic}-{partition}: {ErrorCode(data.error_code).name}"
        found = records_of(data, position)
        records += found
        if not found:
            break
        position = found[-1][0] + 1
    ledger.record(
        "final",
        topic=topic,
        partition=partition,
        start=start,
        end=data.high_watermark,
        records=records,
    )
