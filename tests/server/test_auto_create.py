"""Topics made by asking for them: `auto.create.topics.enable`, and the client's own wish."""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from broker.errors import ErrorCode
from broker.wire import api
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

SETTING = "auto.create.topics.enable"
PARTITIONS = 2
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"num.partitions": PARTITIONS}
    with BrokerProcess(tmp_path_factory.mktemp("auto"), settings) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def ask(
    client: WireClient, *names: str, version: int = 9, allow: bool = True
) -> dict[str, MetadataResponseTopic]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    if version >= 4:
        request.allow_auto_topic_creation = allow
    return {item.name: item for item in client.call(api.METADATA, version, request).topics}


def exists(client: WireClient, name: str) -> bool:
    return ask(client, name, allow=False)[name].error_code == 0


def set_enabled(client: WireClient, *, value: str) -> None:
    change = AlterableConfig(name=SETTING, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = client.call(api.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert answer.error_code == 0, answer.error_message


@pytest.mark.parametrize("version", [0, 1, 3, 4, 8, 9, 12, 13])
def test_an_unknown_topic_is_made_and_written_to_at_once(client: WireClient, version: int) -> None:
    name = f"wanted-{version}"
    found = ask(client, name, version=version)[name]
    assert (found.error_code, len(found.partitions)) == (0, PARTITIONS)
    assert all(item.leader_id == 0 and item.error_code == 0 for item in found.partitions)
    for partition in range(PARTITIONS):
        assert client.produce(name, [(b"k", b"v")], partition=partition).base_offset == 0


def test_a_client_that_does_not_want_it_makes_nothing(client: WireClient) -> None:
    for version in (4, 9, 13):
        answer = ask(client, "unwanted", version=version, allow=False)["unwanted"]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = client.produce("unwanted", [(b"k", b"v")])
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Produce makes no topics"
    fetched = client.fetch("unwanted", 0)
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not exists(client, "unwanted")


def test_the_setting_is_live(client: WireClient) -> None:
    set_enabled(client, value="false")
    try:
        for version in (0, 9):
            answer = ask(client, "off", version=version)["off"]
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not exists(client, "off")
    finally:
        set_enabled(client, value="true")
    assert ask(client, "off")["off"].error_code == 0


def test_names_that_cannot_be_topics_are_refused_among_others(client: WireClient) -> None:
    client.create_topic("dotted.name")
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    long = "x" * 250
    answers = ask(client, "good", "a b", "..", long, "größe", "dotted_name", "__transaction_state")
    assert {name: item.error_code for name, item in answers.items()} == {
        "good": 0,
        "a b": invalid,
        "..": invalid,
        long: invalid,
        "größe": invalid,
        "dotted_name": invalid,
        "__transaction_state": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert exists(client, "good")
    assert not exists(client, "dotted_name")


def test_many_who_ask_at_once_get_the_same_topic(broker: BrokerProcess) -> None:
    found: list[tuple[int, bytes]] = []
    barrier = threading.Barrier(12)

    def ask_once() -> None:
        with WireClient(broker.kafka_port) as own:
            barrier.wait(20)
            answer = ask(own, "contested", version=12)["contested"]
            produced = own.produce("contested", [(b"k", b"v")])
            found.append((answer.error_code or produced.error_code, bytes(answer.topic_id)))

    threads = [threading.Thread(target=ask_once) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 12
    assert {code for code, _ in found} == {0}
    assert len({topic_id for _, topic_id in found}) == 1


def test_no_more_topics_than_partitions_are_allowed(tmp_path: Path) -> None:
    settings = {"num.partitions": 2, "hermes.partitions.max": 10}
    with BrokerProcess(tmp_path, settings) as process, WireClient(process.kafka_port) as client:
        names = [f"many-{number}" for number in range(7)]
        answers = ask(client, *names)
        invalid = ErrorCode.INVALID_PARTITIONS
        assert [answers[name].error_code for name in names] == [0] * 5 + [invalid] * 2
        assert not exists(client, names[-1])


def test_clients_of_others_write_to_topics_that_are_not_there_yet(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = importlib.import_module("kafka")
    with BrokerProcess(tmp_path) as process:
        errors: list[Any] = []
        librdkafka = Producer({"bootstrap.servers": process.bootstrap})
        librdkafka.produce("by-librdkafka", b"v", on_delivery=lambda error, _: errors.append(error))
        assert librdkafka.flush(20) == 0
        assert errors == [None]
        pure = kafka.KafkaProducer(bootstrap_servers=process.bootstrap)
        assert pure.send("by-kafka-python", b"v").get(20).offset == 0
        pure.close()
        consumer = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "g"})
        metadata = consumer.list_topics("not-by-a-consumer", timeout=20)
        assert metadata.topics["not-by-a-consumer"].error is not None
        assert set(consumer.list_topics(timeout=20).topics) >= {"by-librdkafka", "by-kafka-python"}
        assert "not-by-a-consumer" not in consumer.list_topics(timeout=20).topics
        consumer.close()
