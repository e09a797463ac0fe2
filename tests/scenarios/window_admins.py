"""Three admin clients of three client libraries behind one set of verbs: what their users are told
of a topic's settings.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import confluent_kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AiokafkaTopic
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from aiokafka.errors import for_code
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own
    import kafka
    import kafka.admin
    from kafka.errors import KafkaError

CALL_S_MAX: Final = 30.0
Settings = Mapping[str, str]


class Refused(Exception):
    """The broker said no; the text is what the library tells its user, the error's name and all."""


class WindowAdmin(Protocol):
    """`alter` is given all settings that the topic is to have. Both raise Refused."""

    def create(self, topic: str, settings: Settings) -> None: ...
    def alter(self, topic: str, settings: Settings) -> None: ...


class ConfluentAdmin:
    """librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self._client = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, settings: Settings) -> None:
        _wait(self._client.create_topics([NewTopic(topic, 1, 1, config=dict(settings))])[topic])

    def alter(self, topic: str, settings: Settings) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _wait(self._client.incremental_alter_configs([resource])[resource])


def _wait(future: Any) -> None:
    try:
        future.result(CALL_S_MAX)
    except confluent_kafka.KafkaException as error:
        raise Refused(str(error)) from error


class KafkaPythonAdmin:
    """kafka-python, whose `alter_configs` does not raise: it returns "OK" or the error's text."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create(self, topic: str, settings: Settings) -> None:
        wanted = {"num_partitions": 1, "replication_factor": 1, "configs": dict(settings)}
        try:
            self._call(lambda client: client.create_topics({topic: wanted}))
        except KafkaError as error:
            raise Refused(str(error)) from error

    def alter(self, topic: str, settings: Settings) -> None:
        kind = kafka.admin.ConfigResourceType.TOPIC
        resource = kafka.admin.ConfigResource(kind, topic, dict(settings))
        told = self._call(lambda client: client.alter_configs([resource]))["topic"][topic]
        if told != "OK":
            raise Refused(told)

    def _call(self, work: Callable[[Any], Any]) -> Any:
        client = kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            return work(client)
        finally:
            client.close()


class AiokafkaAdmin:
    """aiokafka, which raises nothing: its user gets the response, with its code and its text."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create(self, topic: str, settings: Settings) -> None:
        wanted = AiokafkaTopic(topic, 1, 1, topic_configs=dict(settings))
        response = self._call(lambda client: client.create_topics([wanted]))
        ((_, code, text),) = response.topic_errors
        self._check(code, text)

    def alter(self, topic: str, settings: Settings) -> None:
        resource = AiokafkaResource(AiokafkaResourceType.TOPIC, topic, dict(settings))
        (response,) = self._call(lambda client: client.alter_configs([resource]))
        ((code, text, _, _),) = response.resources
        self._check(code, text)

    def _check(self, code: int, text: str) -> None:
        if code:
            raise Refused(f"{for_code(code).__name__}: {text}")

    def _call(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            client = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await client.start()
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(main())


ADMINS: Final[dict[str, Callable[[str], WindowAdmin]]] = {
    "confluent-kafka": ConfluentAdmin,
    "kafka-python": KafkaPythonAdmin,
    "aiokafka": AiokafkaAdmin,
}


def confluent_max_timestamp(bootstrap: str, topic: str) -> int:
    """The offset that the record with the highest timestamp has; -1 without any."""
    place = confluent_kafka.TopicPartition(topic, 0)
    client = AdminClient({"bootstrap.servers": bootstrap})  # an answer comes only while it lives
    asked = client.list_offsets({place: OffsetSpec.max_timestamp()})
    return int(asked[place].result(CALL_S_MAX).offset)


def kafka_python_max_timestamp(bootstrap: str, topic: str) -> int:
    """As `confluent_max_timestamp`."""
    place = kafka.TopicPartition(topic, 0)
    client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        found = client.list_partition_offsets({place: kafka.admin.OffsetSpec.MAX_TIMESTAMP})
    finally:
        client.close()
    return int(found[place].offset)


MAX_TIMESTAMPS: Final[dict[str, Callable[[str, str], int]]] = {
    "confluent-kafka": confluent_max_timestamp,
    "kafka-python": kafka_python_max_timestamp,
}
"""aiokafka has no call for it."""
