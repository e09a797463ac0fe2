"""Every client writes to topics whose batches are opened: in every codec, in order; and each is
told what is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients import Client, each_client
from tests.conformance.conftest import build_drivers
from tests.support.broker_process import BrokerProcess
from tests.support.opened import opened_batches

COUNT = 1_500
"""Records a codec: batches of more than five hundred go through the worker process."""
MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Ours: Apache Kafka has no such topics."""
    build_drivers()
    with BrokerProcess(tmp_path_factory.mktemp("full")) as process:
        yield process
        assert "Traceback" not in process.log_path.read_text()


@pytest.fixture
def full_topic(broker: BrokerProcess) -> MakeTopic:
    """Creates a topic with `record.validation=full` and further settings (`_` for `.`)."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def create(**settings: str) -> str:
        name = f"full-{next(NUMBERS)}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, 1, 1, config={"record.validation": "full", **config})
        admin.create_topics([topic])[name].result(20)
        return name

    return create


NUMBERS = itertools.count()


def read_all(broker: BrokerProcess, topic: str, count: int) -> list[tuple[bytes, bytes]]:
    """The first `count` records, and proof that there are no more."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    try:
        where = TopicPartition(topic, 0, 0)
        _low, high = consumer.get_watermark_offsets(where, timeout=20)
        assert high == count
        consumer.assign([where])
        found: list[tuple[bytes, bytes]] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=20)
            assert messages, f"{len(found)} of {count} records arrived"
            found += [(message.key(), message.value()) for message in messages]
        return found
    finally:
        consumer.close()


@each_client
def test_what_a_client_writes_is_accepted_in_every_codec_and_kept_in_order(
    client: Client, broker: BrokerProcess, full_topic: MakeTopic
) -> None:
    topic = full_topic()
    sent: list[tuple[str, str]] = []
    for codec in client.codecs:
        records = [
            (f"k{number % 40}", f"{codec}-{number} " + "x" * (number % 7 * 20))
            for number in range(COUNT)
        ]
        client.produce(broker.bootstrap, topic, records, compression=codec)
        sent += records
    expected = [(key.encode(), value.encode()) for key, value in sent]
    assert read_all(broker, topic, len(sent)) == expected


@each_client
def test_a_client_is_told_that_a_record_is_too_large(
    client: Client, broker: BrokerProcess, full_topic: MakeTopic
) -> None:
    topic = full_topic(max_record_bytes="500")
    with pytest.raises(AssertionError, match=r"(?i)large|kcat.*non-zero exit status"):
        client.produce(broker.bootstrap, topic, [("k", "x" * 1_000)])
    client.produce(broker.bootstrap, topic, [("k", "x" * 100)])
    assert read_all(broker, topic, 1) == [(b"k", b"x" * 100)]


def test_librdkafka_keeps_the_order_with_five_in_flight_and_fails_only_what_is_refused(
    broker: BrokerProcess, full_topic: MakeTopic
) -> None:
    topic = full_topic(cleanup_policy="compact")
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 5,
            "batch.num.messages": 2_500,
            "linger.ms": 1,
            "compression.type": "lz4",
        }
    )
    before = opened_batches(broker, "worker")
    delivered: list[bytes] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(message.value())
        else:
            errors.append(error)

    values = [b"%d" % number for number in range(20_000)]
    for value in values:
        producer.produce(topic, value, b"key", on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not errors
    assert opened_batches(broker, "worker") > before
    assert delivered == values
    assert [value for _key, value in read_all(broker, topic, len(values))] == values
    try:
        producer.produce(topic, b"keyless", on_delivery=on_delivery)
        producer.flush(30)
    except KafkaException as fatal:  # an idempotent producer may end with its refused batch
        errors.append(fatal.args[0])
    assert errors
    assert len(read_all(broker, topic, len(values))) == len(values)
