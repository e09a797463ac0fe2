"""The admin clients of others against a real broker: what they send is what we understand."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.broker_process import BrokerProcess

SECONDS = 10
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("clients")) as process:
        yield process


@pytest.fixture(scope="module")
def librdkafka(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture(scope="module")
def kafka() -> Any:
    """kafka-python, which warns about itself when it is imported and used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module("kafka")


@pytest.fixture(scope="module")
def pure_python(broker: BrokerProcess, kafka: Any) -> Iterator[Any]:
    client = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def done(futures: dict[Any, Any]) -> dict[Any, Any]:
    return {key: future.result(SECONDS) for key, future in futures.items()}


def test_librdkafka_lives_through_a_topics_life(librdkafka: AdminClient) -> None:
    wanted = NewTopic("life", num_partitions=2, config={"retention.ms": "1000"})
    done(librdkafka.create_topics([wanted]))
    with pytest.raises(KafkaException) as caught:
        done(librdkafka.create_topics([wanted]))
    assert caught.value.args[0].name() == "TOPIC_ALREADY_EXISTS"
    done(librdkafka.create_partitions([NewPartitions("life", 4)]))
    assert len(librdkafka.list_topics("life", timeout=SECONDS).topics["life"].partitions) == 4
    described = done(librdkafka.describe_topics(TopicCollection(["life"])))["life"]
    assert (described.name, len(described.partitions)) == ("life", 4)
    done(librdkafka.delete_topics(["life"]))
    assert "life" not in librdkafka.list_topics(timeout=SECONDS).topics


def test_librdkafka_changes_and_reads_settings(librdkafka: AdminClient) -> None:
    done(librdkafka.create_topics([NewTopic("tuned")]))
    entry = ConfigEntry("retention.ms", "4242", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "tuned", incremental_configs=[entry])
    done(librdkafka.incremental_alter_configs([resource]))
    (configs,) = done(
        librdkafka.describe_configs([ConfigResource(ResourceType.TOPIC, "tuned")])
    ).values()
    assert configs["retention.ms"].value == "4242"
    assert not configs["retention.ms"].is_default
    (node,) = done(librdkafka.describe_configs([ConfigResource(ResourceType.BROKER, "0")])).values()
    assert node["log.dir"].is_read_only


@pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
def test_librdkafka_replaces_settings_the_older_way(librdkafka: AdminClient) -> None:
    done(librdkafka.create_topics([NewTopic("older", config={"max.message.bytes": "2000"})]))
    resource = ConfigResource(ResourceType.TOPIC, "older", set_config={"retention.ms": "77"})
    done(librdkafka.alter_configs([resource]))
    (configs,) = done(librdkafka.describe_configs([resource])).values()
    assert configs["retention.ms"].value == "77"
    assert configs["max.message.bytes"].is_default


def test_librdkafka_sees_the_cluster_and_offsets(
    broker: BrokerProcess, librdkafka: AdminClient
) -> None:
    cluster = librdkafka.describe_cluster().result(SECONDS)
    assert [(node.id, node.port) for node in cluster.nodes] == [(0, broker.kafka_port)]
    done(librdkafka.create_topics([NewTopic("placed")]))
    for spec in (OffsetSpec.latest(), OffsetSpec.earliest(), OffsetSpec.for_timestamp(0)):
        (found,) = done(librdkafka.list_offsets({ConfluentPartition("placed", 0): spec})).values()
        assert found.offset in (0, -1)


def test_kafka_python_lives_through_a_topics_life(kafka: Any, pure_python: Any) -> None:
    wanted = kafka.admin.NewTopic("pure", 2, 1, topic_configs={"cleanup.policy": "compact"})
    pure_python.create_topics([wanted])
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        pure_python.create_topics([wanted])
    assert "pure" in pure_python.list_topics()
    pure_python.create_partitions({"pure": 3})
    (described,) = pure_python.describe_topics(["pure"])
    assert len(described["partitions"]) == 3
    pure_python.delete_topics(["pure"])
    assert "pure" not in pure_python.list_topics()


def test_kafka_python_finds_offsets_by_time(broker: BrokerProcess, kafka: Any) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    for stamp in (1_000, 3_000, 2_000):
        producer.send("timed", b"v", partition=0, timestamp_ms=stamp).get(SECONDS)
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)
    partition = kafka.TopicPartition("timed", 0)
    assert consumer.end_offsets([partition]) == {partition: 3}
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    found = consumer.offsets_for_times({partition: 1_500})[partition]
    assert (found.offset, found.timestamp) == (1, 3_000)
    consumer.close()
