"""Fetches and commits over HTTP."""

from __future__ import annotations

import base64
import http.client
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.gateway.gateway_process import GatewayProcess, wait_until

NewTopic = Callable[..., str]


def test_a_fetch_hands_out_what_was_put(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    for number in range(5):
        gateway.put(topic, messageId=f"m{number}", shardingKey="k", value=b"v%d" % number)
    reply = gateway.fetch(topic, 0, 1, maxMessages=2)
    assert reply.status == 200
    document = reply.json
    assert (document["offset"], document["nextOffset"]) == ("1", "3")
    assert (document["highWatermark"], document["logStartOffset"]) == ("5", "0")
    assert [row["messageId"] for row in document["messages"]] == ["m1", "m2"]
    row = document["messages"][0]
    assert base64.b64decode(row["body"]) == b"v1"
    assert (row["queueOffset"], row["shardingKey"]) == ("1", "k")
    assert row["headers"] == [{"name": "message-id", "value": "m1"}]
    assert abs(int(row["timestampMs"]) / 1000 - time.time()) < 300


def test_earliest_and_latest_are_offsets_too(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    gateway.put(topic)
    assert gateway.fetch(topic, 0, "earliest").json["nextOffset"] == "1"
    latest = gateway.fetch(topic, 0, "latest").json
    assert (latest["offset"], latest["messages"]) == ("1", [])


def test_bytes_that_are_no_text_come_as_base64(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, key=b"\xff", value=None, headers=[("h", b"\xfe"), ("n", None)])
    assert producer.flush(30) == 0
    [row] = gateway.fetch(topic, 0, 0).json["messages"]
    assert (row["shardingKey"], row["shardingKeyBase64"]) == (None, "/w==")
    assert (row["body"], row["messageId"]) == (None, None)
    assert row["headers"] == [
        {"name": "h", "value": None, "valueBase64": "/g=="},
        {"name": "n", "value": None},
    ]


def test_a_fetch_waits_for_a_message(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    gateway.put(topic)
    got: list[str] = []

    def fetch() -> None:
        reply = gateway.fetch(topic, 0, 1, waitMs=30_000)
        got.extend(row["messageId"] for row in reply.json["messages"])

    waiting = threading.Thread(target=fetch)
    waiting.start()
    wait_until(lambda: gateway.metric("hermes_gateway_parked_fetches") == 1, what="a wait")
    assert gateway.put(topic, messageId="woken").status == 200
    waiting.join(30)
    assert got == ["woken"]


def test_a_wait_ends(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    began = time.monotonic()
    document = gateway.fetch(topic, 0, 0, waitMs=300).json
    assert (document["messages"], document["nextOffset"]) == ([], "0")
    assert time.monotonic() - began >= 0.25


@pytest.fixture
def narrow(bootstrap: str, tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway that takes one fetch at a time."""
    with GatewayProcess(tmp_path, bootstrap, fetches_max=1) as process:
        yield process


def test_a_client_that_leaves_ends_its_wait(narrow: GatewayProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    connection = http.client.HTTPConnection("127.0.0.1", narrow.port)
    path = f"/api/v1/messages/fetch?topic={topic}&partition=0&offset=0"
    connection.request("GET", f"{path}&waitMs=30000")
    wait_until(lambda: narrow.metric("hermes_gateway_parked_fetches") == 1, what="a wait")
    refused = narrow.fetch(topic, 0, 0)
    assert (refused.status, refused.json["code"]) == (429, "THROTTLED")
    connection.close()
    wait_until(lambda: narrow.metric("hermes_gateway_parked_fetches") == 0, what="its end")
    assert narrow.fetch(topic, 0, 0).status == 200


def test_fetches_that_come_at_once_are_counted_at_once(
    narrow: GatewayProcess, new_topic: NewTopic
) -> None:
    """Also while the first of them still asks the cluster about the topic."""
    path = f"/api/v1/messages/fetch?topic={new_topic()}&partition=0&offset=0&waitMs=30000"
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    connections = [socket.create_connection(("127.0.0.1", narrow.port)) for _ in range(30)]
    try:
        for connection in connections:
            connection.sendall(request)
        answered: list[socket.socket] = []
        while len(answered) < 29:
            waiting = [each for each in connections if each not in answered]
            readable, _, _ = select.select(waiting, [], [], 20)
            assert readable, f"{len(answered)} of 30 were refused"
            assert all(b" 429 " in each.recv(65536) for each in readable)
            answered += readable
        assert narrow.metric("hermes_gateway_parked_fetches") == 1
    finally:
        for connection in connections:
            connection.close()


def test_an_offset_that_is_not_there_says_what_is(
    gateway: GatewayProcess, new_topic: NewTopic
) -> None:
    topic = new_topic()
    gateway.put(topic)
    reply = gateway.fetch(topic, 0, 99)
    assert (reply.status, reply.json["code"]) == (416, "OFFSET_OUT_OF_RANGE")
    assert (reply.json["logStartOffset"], reply.json["highWatermark"]) == ("0", "1")


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("partition=0&offset=0", 400, "topic"),
        ("topic=TOPIC&offset=0", 400, "partition"),
        ("topic=TOPIC&partition=0", 400, "offset"),
        ("topic=TOPIC&partition=-1&offset=0", 400, "partition"),
        ("topic=TOPIC&partition=0&offset=-1", 400, "offset"),
        ("topic=TOPIC&partition=0&offset=9223372036854775808", 400, "offset"),
        ("topic=TOPIC&partition=0&offset=%D9%A1", 400, "offset"),
        ("topic=TOPIC&partition=0&offset=0&maxMessages=0", 400, "maxMessages"),
        ("topic=TOPIC&partition=0&offset=0&waitMs=30001", 400, "waitMs"),
        ("topic=TOPIC&partition=0&offset=0&limit=5", 400, "limit"),
        ("topic=TOPIC&partition=0&offset=0&offset=1", 400, None),
        ("topic=TOPIC&partition=0&offset=%ff", 400, None),
        ("topic=TOPIC&partition=7&offset=0", 404, "partition"),
        ("topic=absent&partition=0&offset=0", 404, "topic"),
    ],
)
def test_a_wrong_parameter_is_named(
    gateway: GatewayProcess, new_topic: NewTopic, query: str, status: int, field: str | None
) -> None:
    path = f"/api/v1/messages/fetch?{query.replace('TOPIC', new_topic())}"
    reply = gateway.call("GET", path)
    assert (reply.status, reply.json.get("field")) == (status, field)


def produce(bootstrap: str, topic: str, values: list[bytes], codec: str) -> None:
    """In one batch."""
    size = sum(map(len, values)) + 1_000_000
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 2_000,
            "message.max.bytes": size,
            "batch.size": size,
        }
    )
    for value in values:
        producer.produce(topic, value=value)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_an_answer_has_as_many_unpacked_bytes_as_were_asked_for(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic, codec: str
) -> None:
    """What does not fit comes next, each message once."""
    topic = new_topic()
    produce(bootstrap, topic, [b"%06d" % n + bytes(99_994) for n in range(9)], codec)
    offset, counts, numbers = "0", [], []
    while offset != "9":
        reply = gateway.fetch(topic, 0, offset, maxBytes=250_000)
        document = reply.json
        rows = document["messages"]
        counts.append(len(rows))
        assert [row["queueOffset"] for row in rows] == [
            str(n) for n in range(int(offset), int(document["nextOffset"]))
        ]
        numbers += [int(base64.b64decode(row["body"])[:6]) for row in rows]
        offset = document["nextOffset"]
        assert len(counts) < 20
    assert numbers == list(range(9))
    assert max(counts) == 2
    small = gateway.fetch(topic, 0, 4, maxBytes=10).json
    assert (len(small["messages"]), small["nextOffset"]) == (1, "5")


def test_a_small_batch_of_many_megabytes_is_no_large_answer(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, [bytes(1_000_000)] * 60, "zstd")
    reply = gateway.fetch(topic, 0, 0)
    assert reply.status == 200
    assert len(reply.body) < 1_500_000
    assert (len(reply.json["messages"]), reply.json["nextOffset"]) == (1, "1")
    last = gateway.fetch(topic, 0, 59).json
    assert (len(last["messages"]), last["nextOffset"]) == (1, "60")


def test_a_message_that_is_too_large_is_a_problem_that_says_where_to_go_on(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, [b"before", bytes(17 << 20), b"after"], "zstd")
    first = gateway.fetch(topic, 0, 0, maxBytes=4 << 20).json
    assert (len(first["messages"]), first["nextOffset"]) == (1, "1")
    refused = gateway.fetch(topic, 0, 1)
    assert (refused.status, refused.json["code"]) == (413, "MESSAGE_TOO_LARGE")
    assert refused.json["nextOffset"] == "2"
    assert "Kafka client" in refused.json["detail"]
    [row] = gateway.fetch(topic, 0, 2).json["messages"]
    assert base64.b64decode(row["body"]) == b"after"


def test_a_batch_that_unpacks_to_too_much_is_a_problem_that_says_where_to_go_on(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    gateway.put(topic, messageId="before")
    produce(bootstrap, topic, [bytes(70_000_000)], "zstd")
    gateway.put(topic, messageId="after")
    first = gateway.fetch(topic, 0, 0).json
    assert ([row["messageId"] for row in first["messages"]], first["nextOffset"]) == (
        ["before"],
        "1",
    )
    refused = gateway.fetch(topic, 0, 1)
    assert (refused.status, refused.json["code"]) == (413, "MESSAGE_TOO_LARGE")
    assert refused.json["nextOffset"] == "2"
    assert "unpacks to more than 67108864 bytes" in refused.json["detail"]
    [row] = gateway.fetch(topic, 0, 2).json["messages"]
    assert row["messageId"] == "after"


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        [row] = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        return int(row.offset)
    finally:
        consumer.close()


@pytest.mark.parametrize("offset", ["1", 1])
def test_a_commit_is_what_the_group_reads_next(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic, offset: object
) -> None:
    topic = new_topic()
    gateway.put(topic)
    body = {"group": topic, "topic": topic, "partition": 0, "offset": offset}
    reply = gateway.call("POST", "/api/v1/offsets/commit", body)
    assert (reply.status, reply.json) == (200, {**body, "offset": "1"})
    assert committed(bootstrap, topic, topic) == 1


def test_a_commit_into_a_group_that_reads_is_refused(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment(), what="a member")
        body = {"group": topic, "topic": topic, "partition": 0, "offset": "0"}
        reply = gateway.call("POST", "/api/v1/offsets/commit", body)
        assert (reply.status, reply.json["code"]) == (409, "GROUP_ACTIVE")
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"group": ""}, 400, "group"),
        ({"group": "a\nb"}, 400, "group"),
        ({"group": None}, 400, "group"),
        ({"topic": "absent"}, 404, "topic"),
        ({"partition": 9}, 404, "partition"),
        ({"partition": True}, 400, "partition"),
        ({"offset": -1}, 400, "offset"),
        ({"offset": 1.0}, 400, "offset"),
        ({"offset": "latest"}, 400, "offset"),
        ({"metadata": "x"}, 400, "metadata"),
    ],
)
def test_a_wrong_commit_is_refused(
    gateway: GatewayProcess,
    new_topic: NewTopic,
    change: dict[str, object],
    status: int,
    field: str,
) -> None:
    body = {"group": "g", "topic": new_topic(), "partition": 0, "offset": "0", **change}
    reply = gateway.call("POST", "/api/v1/offsets/commit", body)
    assert (reply.status, reply.json["field"]) == (status, field)
