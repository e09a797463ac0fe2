"""The Java client on what it alone shows: which record of a batch was refused, and polls on a topic
that holds records back and stops delivering them.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.conformance.clients import CLIENTS
from tests.conformance.conftest import build_drivers
from tests.support.broker_process import BrokerProcess

JAVA = next(client for client in CLIENTS if client.name == "java")
CLOCK_MS = 2
"""Between the stamp of a batch and the broker's look at the clock."""
NUMBERS = itertools.count()
MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Ours: Apache Kafka has no such topics."""
    build_drivers()
    settings = {"group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path_factory.mktemp("java"), settings) as process:
        yield process
        assert "Traceback" not in process.log_path.read_text()


@pytest.fixture(scope="module")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def topic_with(admin: AdminClient) -> MakeTopic:
    """Creates a topic of one partition with settings (`_` for `.`)."""

    def create(**settings: object) -> str:
        name = f"java-{next(NUMBERS)}"
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(20)
        return name

    return create


def attempt(
    bootstrap: str, topic: str, records: Sequence[tuple[str | None, str]]
) -> list[dict[str, object]]:
    """What the producer told of each record of one batch, and of one that it sent afterwards."""
    rows = [json.dumps({"key": key, "value": value}) for key, value in records]
    finished = subprocess.run(
        [*JAVA.command, "attempt", bootstrap, topic],
        input="\n".join(rows).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr.decode(errors="replace")[-2000:]
    return [json.loads(line) for line in finished.stdout.splitlines()]


def test_the_producer_names_the_record_that_was_refused_and_goes_on(
    broker: BrokerProcess, topic_with: MakeTopic
) -> None:
    topic = topic_with(record_validation="full", cleanup_policy="compact")
    *batch, last = attempt(
        broker.bootstrap, topic, [("a", "1"), ("b", "2"), (None, "keyless"), ("c", "4")]
    )
    assert [row["error"] for row in batch] == [
        "KafkaException",
        "KafkaException",
        "InvalidRecordException",
        "KafkaException",
    ]
    assert "no key" in str(batch[2]["message"])
    assert all("part of a batch" in str(batch[n]["message"]) for n in (0, 1, 3)), batch
    assert last == {"event": "sent", "offset": 0}


def test_a_consumer_gets_delayed_records_when_they_are_due(
    broker: BrokerProcess, topic_with: MakeTopic
) -> None:
    delay_ms = 1_500
    topic = topic_with(message_timestamp_type="LogAppendTime", delivery_delay_ms=delay_ms)
    sent = [(f"k{number}", f"v{number}") for number in range(20)]
    with JAVA.member(broker.bootstrap, topic, f"{topic}-group") as member:
        member.wait_until(lambda: member.assignment == [0], "it has the partition")
        CLIENTS[0].produce(broker.bootstrap, topic, sent)
        member.wait_until(lambda: len(member.records) >= len(sent), "all records came")
        member.leave()
    assert [(row["key"], row["value"]) for row in member.records] == sent
    assert min(row["at"] - row["timestamp"] for row in member.records) >= delay_ms - CLOCK_MS


def test_a_consumer_that_was_away_goes_on_behind_what_is_expired(
    broker: BrokerProcess, admin: AdminClient, topic_with: MakeTopic
) -> None:
    topic = topic_with(message_timestamp_type="LogAppendTime", delivery_ttl_ms=2_000)
    group = f"{topic}-group"
    CLIENTS[0].produce(broker.bootstrap, topic, [("k", "expired")] * 3)
    at_the_beginning = [TopicPartition(topic, 0, 0)]
    committed = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, at_the_beginning)]
    )
    committed[group].result(20)
    wait_until_expired(admin, topic, 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    with JAVA.member(broker.bootstrap, topic, group) as member:
        member.wait_until(lambda: member.assignment == [0], "it has the partition")
        deadline = time.monotonic() + 60
        while not member.records:  # a busy machine may let one expire
            assert time.monotonic() < deadline, "nothing came"
            producer.produce(topic, b"young", b"k")
            assert producer.flush(20) == 0
            time.sleep(0.05)
            member.take_events()
        member.leave()
    first = member.records[0]
    assert first["value"] == "young"
    assert first["offset"] >= 3
    assert {record["value"] for record in member.records} == {"young"}


def wait_until_expired(admin: AdminClient, topic: str, beginning: int) -> None:
    """Until the partition begins there."""
    place = TopicPartition(topic, 0)
    deadline = time.monotonic() + 60
    while True:
        found = admin.list_offsets({place: OffsetSpec.earliest()})[place].result(20)
        if found.offset == beginning:
            return
        assert time.monotonic() < deadline, f"it begins at {found.offset}, not {beginning}"
        time.sleep(0.05)
