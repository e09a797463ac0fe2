"""Three consumers of three client libraries behind one set of verbs: what the delivery window's
rules are asked of.

`poll` gives (offset, value, timestamp); an `OffsetOutOfRange` says that the client asks its
application what to do, since `auto.offset.reset` is none for all of them.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import aiokafka
import confluent_kafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own
    import kafka
    from kafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError

T = TypeVar("T")
CALL_S_MAX: Final = 30.0


class Seen(NamedTuple):
    """One record as the application gets it; `at_ms` is when."""

    offset: int
    value: str
    timestamp: int
    at_ms: float


class OffsetOutOfRange(Exception):
    """The broker said so, and the client had no way to go on."""


class WindowReader(Protocol):
    """A consumer of partition 0 of a topic. It has a group, and commits only when told."""

    def poll(self, seconds: float) -> list[Seen]: ...
    def seek(self, offset: int) -> None: ...
    def ends(self) -> tuple[int, int]: ...
    def offset_at(self, timestamp_ms: int) -> int | None: ...
    def commit(self, offset: int) -> None: ...
    def committed(self) -> int: ...
    def close(self) -> None: ...


class ConfluentReader:
    """librdkafka."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        start: int | None,
        min_bytes: int,
        wait_ms: int,
    ) -> None:
        self._place = confluent_kafka.TopicPartition(topic, 0)
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.min.bytes": min_bytes,
                "fetch.wait.max.ms": wait_ms,
            }
        )
        at = confluent_kafka.OFFSET_STORED if start is None else start
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, at)])

    def poll(self, seconds: float) -> list[Seen]:
        found = []
        first = self._consumer.poll(seconds)  # `consume` would wait for all that it may bring
        messages = [] if first is None else [first, *self._consumer.consume(10_000, timeout=0)]
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                    raise OffsetOutOfRange(error.str())
                raise confluent_kafka.KafkaException(error)
            stamp = message.timestamp()[1]
            found.append(Seen(message.offset(), (message.value() or b"").decode(), stamp, now_ms()))
        return found

    def seek(self, offset: int) -> None:
        self._consumer.assign([confluent_kafka.TopicPartition(self._place.topic, 0, offset)])

    def ends(self) -> tuple[int, int]:
        return self._consumer.get_watermark_offsets(self._place, timeout=CALL_S_MAX, cached=False)

    def offset_at(self, timestamp_ms: int) -> int | None:
        question = confluent_kafka.TopicPartition(self._place.topic, 0, timestamp_ms)
        (answer,) = self._consumer.offsets_for_times([question], timeout=CALL_S_MAX)
        return answer.offset if answer.offset >= 0 else None

    def commit(self, offset: int) -> None:
        place = confluent_kafka.TopicPartition(self._place.topic, 0, offset)
        self._consumer.commit(offsets=[place], asynchronous=False)

    def committed(self) -> int:
        (found,) = self._consumer.committed([self._place], timeout=CALL_S_MAX)
        return found.offset

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonReader:
    """kafka-python."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        start: int | None,
        min_bytes: int,
        wait_ms: int,
    ) -> None:
        self._place = kafka.TopicPartition(topic, 0)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_min_bytes=min_bytes,
            fetch_max_wait_ms=wait_ms,
            request_timeout_ms=40_000,
            connections_max_idle_ms=60_000,
        )
        self._consumer.bootstrap(refresh=True)  # an assignment beside a request may be forgotten
        self._consumer.assign([self._place])
        if start is not None:
            self._consumer.seek(self._place, start)

    def poll(self, seconds: float) -> list[Seen]:
        try:
            batches = self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=10_000)
        except (OffsetOutOfRangeError, NoOffsetForPartitionError) as error:
            raise OffsetOutOfRange(str(error)) from error
        at_ms = now_ms()
        return [
            Seen(record.offset, (record.value or b"").decode(), record.timestamp, at_ms)
            for record in batches.get(self._place, [])
        ]

    def seek(self, offset: int) -> None:
        self._consumer.seek(self._place, offset)

    def ends(self) -> tuple[int, int]:
        first = self._consumer.beginning_offsets([self._place])[self._place]
        return first, self._consumer.end_offsets([self._place])[self._place]

    def offset_at(self, timestamp_ms: int) -> int | None:
        found = self._consumer.offsets_for_times({self._place: timestamp_ms})[self._place]
        return None if found is None else found.offset

    def commit(self, offset: int) -> None:
        self._consumer.commit({self._place: kafka.OffsetAndMetadata(offset, "", -1)})

    def committed(self) -> int:
        return int(self._consumer.committed(self._place))

    def close(self) -> None:
        self._consumer.close()


class AiokafkaReader:
    """aiokafka, on a loop of its own in a thread."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        start: int | None,
        min_bytes: int,
        wait_ms: int,
    ) -> None:
        self._place = aiokafka.TopicPartition(topic, 0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer: Any = self._do(
            self._begin(
                start,
                {
                    "bootstrap_servers": bootstrap,
                    "group_id": group,
                    "enable_auto_commit": False,
                    "auto_offset_reset": "none",
                    "fetch_min_bytes": min_bytes,
                    "fetch_max_wait_ms": wait_ms,
                },
            )
        )

    async def _begin(self, start: int | None, settings: Mapping[str, Any]) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        await consumer.start()
        consumer.assign([self._place])
        if start is not None:
            consumer.seek(self._place, start)
        return consumer

    def _do(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(CALL_S_MAX)

    def poll(self, seconds: float) -> list[Seen]:
        try:
            batches = self._do(
                self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=10_000)
            )
        except (
            aiokafka.errors.OffsetOutOfRangeError,
            aiokafka.errors.NoOffsetForPartitionError,
        ) as error:
            raise OffsetOutOfRange(str(error)) from error
        at_ms = now_ms()
        return [
            Seen(record.offset, (record.value or b"").decode(), record.timestamp, at_ms)
            for record in batches.get(self._place, [])
        ]

    def seek(self, offset: int) -> None:
        self._loop.call_soon_threadsafe(self._consumer.seek, self._place, offset)

    def ends(self) -> tuple[int, int]:
        first = self._do(self._consumer.beginning_offsets([self._place]))[self._place]
        return first, self._do(self._consumer.end_offsets([self._place]))[self._place]

    def offset_at(self, timestamp_ms: int) -> int | None:
        found = self._do(self._consumer.offsets_for_times({self._place: timestamp_ms}))
        return None if found[self._place] is None else found[self._place].offset

    def commit(self, offset: int) -> None:
        self._do(self._consumer.commit({self._place: offset}))

    def committed(self) -> int:
        return int(self._do(self._consumer.committed(self._place)))

    def close(self) -> None:
        self._do(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


MakeReader = Callable[[str, str, str, int | None, int, int], WindowReader]
"""(bootstrap, topic, group, start or None for the commit, min bytes, wait ms)."""

READERS: Final[dict[str, MakeReader]] = {
    "confluent-kafka": ConfluentReader,
    "kafka-python": KafkaPythonReader,
    "aiokafka": AiokafkaReader,
}


def now_ms() -> float:
    """By the machine's clock, which the broker shares."""
    return time.time() * 1000
