"""The groups that read the order events: six services, one of which is slow on purpose."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException

BATCH_RECORDS_MAX: Final = 200
_POLL_S: Final = 0.5
_RETRY_S: Final = 2.0


class Group(NamedTuple):
    """`records_per_s` is what one member gets done in a second, 0 for as fast as it can."""

    name: str
    members: int = 1
    records_per_s: float = 0


GROUPS: Final = (
    Group("inventory", members=2),
    Group("payment"),
    Group("settlement"),
    Group("marketing"),
    Group("notification"),
    Group("risk-control", records_per_s=75),
)
"""risk-control takes its time: it keeps up with the steady rate, falls behind in a spike, and
catches up afterwards.
"""


class Member:
    """One consumer of one group on a thread of its own, until `stop` is set.

    A record's offset is stored after its work is done and committed within a second, so that a
    crash repeats records and loses none.
    """

    def __init__(
        self,
        group: Group,
        settings: dict[str, Any],
        topic: str,
        stop: threading.Event,
        report: Callable[[str], None],
    ) -> None:
        self.group = group
        self.done = 0
        self._settings = settings
        self._topic = topic
        self._stop = stop
        self._report = report
        self._thread = threading.Thread(target=self._run, name=group.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        """Consume until told to stop; a consumer that failed for good is replaced."""
        while not self._stop.is_set():
            consumer = Consumer(consumer_settings(self.group, self._settings))
            try:
                consumer.subscribe([self._topic])
                self._consume(consumer)
            except KafkaException as error:
                self._report(f"group {self.group.name}: {error}; joining again")
                self._stop.wait(_RETRY_S)
            finally:
                consumer.close()

    def _consume(self, consumer: Consumer) -> None:
        while not self._stop.is_set():
            started_s = time.monotonic()
            messages = consumer.consume(self._batch_records(), timeout=_POLL_S)
            for message in messages:
                error = message.error()
                if error is None:
                    consumer.store_offsets(message)
                    self.done += 1
                elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  its public name
                    self._pause_or_raise(error)
            self._work(len(messages), time.monotonic() - started_s)

    def _batch_records(self) -> int:
        """A slow member takes a quarter of a second of work at a time."""
        rate = self.group.records_per_s
        return BATCH_RECORDS_MAX if rate == 0 else max(1, int(rate / 4))

    def _work(self, records: int, spent_s: float) -> None:
        if self.group.records_per_s and records:
            self._stop.wait(max(0.0, records / self.group.records_per_s - spent_s))

    def _pause_or_raise(self, error: Any) -> None:
        if error.fatal():
            raise KafkaException(error)
        self._stop.wait(0.2)


def consumer_settings(group: Group, settings: dict[str, Any]) -> dict[str, Any]:
    """librdkafka's settings of a member: few, larger fetches cost the broker little."""
    return {
        **settings,
        "group.id": group.name,
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
        "auto.commit.interval.ms": 1_000,
        "session.timeout.ms": 10_000,
        "fetch.min.bytes": 20_000,
        "fetch.wait.max.ms": 250,
        "queued.min.messages": 500,
        "queued.max.messages.kbytes": 2_048,
        "fetch.queue.backoff.ms": 100,
    }
