"""A topic's offsets and its groups' committed ones, as the broker tells them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from broker.bench.target import BenchFault, Target

REQUEST_S_MAX = 10.0


class Offsets:
    """Sums over the partitions of one topic. A context manager; raises BenchFault."""

    def __init__(self, target: Target, topic: str, partitions: int) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": target.bootstrap, "log_level": 3}
        self._topic = topic
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._admin = AdminClient(settings)
        self._consumer = Consumer({**settings, "group.id": "hermes-bench"})

    def __enter__(self) -> Offsets:
        self.end()  # connects
        return self

    def __exit__(self, *_exception: object) -> None:
        self._consumer.close()

    def end(self) -> int:
        """How many records were ever appended."""
        try:
            offsets = [
                self._consumer.get_watermark_offsets(partition, timeout=REQUEST_S_MAX)[1]
                for partition in self._partitions
            ]
        except KafkaException as error:
            raise BenchFault(f"the offsets of {self._topic} cannot be read: {error}") from error
        return sum(offsets)

    def committed(self, group: str) -> int:
        """How many records the group has behind it."""
        request = [ConsumerGroupTopicPartitions(group, self._partitions)]
        try:
            futures = self._admin.list_consumer_group_offsets(request)
            found = futures[group].result(REQUEST_S_MAX).topic_partitions
        except (KafkaException, TimeoutError) as error:
            raise BenchFault(f"the offsets of group {group} cannot be read: {error}") from error
        return sum(max(partition.offset, 0) for partition in found)

    def lag(self, group: str) -> int:
        """How many records the group has before it."""
        committed = self.committed(group)
        return max(0, self.end() - committed)
