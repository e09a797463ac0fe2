"""Puts over HTTP: what is stored, what is answered, what a repeated id gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.gateway.gateway_process import GatewayProcess
from tests.gateway.records import create_topic, delete_topic, read_all

NewTopic = Callable[..., str]


def test_a_put_is_stored_with_key_headers_and_id(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    reply = gateway.put(
        topic,
        shardingKey="order-1",
        messageId="created-1",
        headers={"event-type": "OrderCreated", "source": "shop"},
        value=b"\x00\xff",
    )
    assert reply.status == 200
    assert reply.json == {
        "topic": topic,
        "partition": 0,
        "queueOffset": "0",
        "messageId": "created-1",
        "highWatermark": "1",
        "duplicate": False,
    }
    [record] = read_all(bootstrap, topic)
    assert (record.key, record.value) == (b"order-1", b"\x00\xff")
    assert record.headers == [
        ("message-id", b"created-1"),
        ("event-type", b"OrderCreated"),
        ("source", b"shop"),
    ]


def test_an_id_is_made_when_none_is_given(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    made = [gateway.put(topic).json["messageId"] for _ in range(3)]
    assert len(set(made)) == 3
    assert [record.message_id for record in read_all(bootstrap, topic)] == made


def test_keys_go_where_javas_partitioner_puts_them(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(7)
    keys = [f"order-{number}" for number in range(60)] + ["ключ", "🛒", "a", "ab", "abc", "abcd"]
    expected: dict[str, int] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            topic,
            key=key,
            on_delivery=lambda _e, m, key=key: expected.update({key: m.partition()}),
        )
    assert producer.flush(30) == 0
    reply = gateway.put_batch([{"shardingKey": key, "body": None} for key in keys], topic=topic)
    assert reply.status == 200
    found = {key: row["partition"] for key, row in zip(keys, reply.json["results"], strict=True)}
    assert found == expected


def test_messages_without_a_key_are_spread(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    rows = gateway.put_batch([{"body": "A" * 4000} for _ in range(200)], topic=topic).json
    assert len({row["partition"] for row in rows["results"]}) > 1


def test_null_is_not_empty(gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    for fields in ({"body": None}, {"body": ""}, {"body": "", "shardingKey": ""}):
        assert gateway.put(topic, **fields).status == 200
    records = read_all(bootstrap, topic)
    assert [(r.key, r.value) for r in records] == [(None, None), (None, b""), (b"", b"")]


def test_a_repeated_id_gets_the_first_answer(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    message = {"shardingKey": "k", "messageId": "once", "headers": {"a": "1", "b": "2"}}
    first = gateway.put(topic, value=b"x", **message).json
    gateway.put(topic, shardingKey="k", value=b"later")
    again = gateway.put(topic, value=b"x", **{**message, "headers": {"b": "2", "a": "1"}}).json
    assert first["duplicate"] is False
    assert again == {**first, "duplicate": True}
    stored = read_all(bootstrap, topic, 3)
    assert [record.value for record in stored] == [b"x", b"later"]


def test_a_repeat_without_a_key_gets_the_first_partition(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(8)
    big = "A" * 40_000  # each moves the sticky partition on
    answers = []
    for _ in range(5):
        answers.append(gateway.put(topic, messageId="m").json)
        gateway.put(topic, body=big)
    assert len({(row["partition"], row["queueOffset"]) for row in answers}) == 1


@pytest.mark.parametrize(
    "change", [{"value": b"y"}, {"shardingKey": "l"}, {"headers": {"a": "2"}}, {"body": None}]
)
def test_another_message_under_a_known_id_is_refused(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic, change: dict[str, Any]
) -> None:
    topic = new_topic()
    message = {"shardingKey": "k", "messageId": "once", "headers": {"a": "1"}, "value": b"x"}
    assert gateway.put(topic, **message).status == 200
    if "body" in change:
        message.pop("value")
    reply = gateway.put(topic, **{**message, **change})
    assert reply.status == 409
    assert reply.json["code"] == "MESSAGE_ID_CONFLICT"
    assert reply.json["field"] == "messageId"
    assert len(read_all(bootstrap, topic)) == 1


def test_a_trace_does_not_make_another_message(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    body = {"topic": topic, "messageId": "m", "body": "QQ=="}
    traces = [f"00-{digit * 32}-{digit * 16}-01" for digit in "ab"]
    replies = [
        gateway.call("PUT", "/api/v1/messages", body, headers={"traceparent": trace}).json
        for trace in traces
    ]
    assert [reply["duplicate"] for reply in replies] == [False, True]
    [record] = read_all(bootstrap, topic)
    assert dict(record.headers)["traceparent"] == traces[0].encode()


def test_ids_are_of_a_topic(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    one, other = new_topic(), new_topic()
    assert gateway.put(one, messageId="m").json["duplicate"] is False
    assert gateway.put(other, messageId="m", value=b"else").json["duplicate"] is False


def test_concurrent_puts_of_one_id_store_one_record(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    with ThreadPoolExecutor(24) as pool:
        calls = [pool.submit(gateway.put, topic, messageId="m", value=b"x") for _ in range(48)]
        answers = [call.result().json for call in calls]
    assert len({(row["partition"], row["queueOffset"]) for row in answers}) == 1
    assert [row["duplicate"] for row in answers].count(False) == 1
    assert len(read_all(bootstrap, topic, 4)) == 1


def test_an_id_twice_in_a_batch_is_stored_once(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    rows = [{"messageId": "m", "body": "QQ=="}, {"messageId": "m", "body": "QQ=="}]
    reply = gateway.put_batch([*rows, {"messageId": "m", "body": "Qg=="}], topic=topic)
    assert reply.status == 207
    first, second, third = reply.json["results"]
    assert second == {**first, "duplicate": True}
    assert third["problem"]["code"] == "MESSAGE_ID_CONFLICT"
    assert third["problem"]["field"] == "messages[2].messageId"
    assert len(read_all(bootstrap, topic)) == 1


def test_a_batch_stores_what_the_same_messages_store_one_by_one(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "messageId": f"id-{number}" if number % 5 else f"№ {number}",
            "shardingKey": f"order-{number % 40}" + "x" * (number % 3),
            "body": "QQ==" if number % 7 else None,
            **({"headers": {"n": str(number % 2), "ü": "é"}} if number % 4 else {}),
        }
        for number in range(250)
    ]
    together, singly = new_topic(5), new_topic(5)
    answers = gateway.put_batch(rows, topic=together).json
    assert (answers["stored"], answers["failed"]) == (250, 0)
    for row, answer in zip(rows, answers["results"], strict=True):
        alone = gateway.put(singly, **row).json
        same = ("partition", "queueOffset", "messageId", "duplicate")
        assert [alone[name] for name in same] == [answer[name] for name in same]
    assert read_all(bootstrap, together, 5) == read_all(bootstrap, singly, 5)
    again = gateway.put_batch(rows, topic=together).json["results"]
    assert again == [{**answer, "duplicate": True} for answer in answers["results"]]


@pytest.mark.parametrize("position", [0, 7, 120])
def test_a_known_id_among_new_ones_is_stored_once(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic, position: int
) -> None:
    topic = new_topic()
    first = gateway.put(topic, messageId="known", value=b"A").json
    rows = [{"messageId": f"m{number}", "body": "QQ=="} for number in range(130)]
    rows[position]["messageId"] = "known"
    rows[129]["messageId"] = rows[128]["messageId"]
    results = gateway.put_batch(rows, topic=topic).json["results"]
    assert results[position] == {**first, "duplicate": True}
    assert results[129] == {**results[128], "duplicate": True}
    assert sum(row["duplicate"] for row in results) == 2
    ids = [record.message_id for record in read_all(bootstrap, topic)]
    assert len(ids) == len(set(ids)) == 129


def test_ids_are_made_for_a_batch_without_them(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    rows = [{"body": "QQ==", **({"messageId": "mine"} if n == 5 else {})} for n in range(20)]
    answers = gateway.put_batch(rows, topic=topic).json["results"]
    ids = [row["messageId"] for row in answers]
    assert len(set(ids)) == 20
    assert ids[5] == "mine"
    assert [record.message_id for record in read_all(bootstrap, topic)] == ids


def test_a_batch_is_answered_message_by_message(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    reply = gateway.put_batch(
        [
            {"body": "QQ=="},
            {"body": "no base64", "messageId": "mine"},
            {"body": "QQ==", "bodi": 1},
            {"topic": "no-such-topic", "body": "QQ=="},
            "text",
            {"topic": topic, "body": "Qg=="},
        ],
        topic=topic,
    )
    assert reply.status == 207
    assert (reply.json["stored"], reply.json["failed"]) == (2, 4)
    assert reply.json["results"][1]["messageId"] == "mine"
    problems = [row["problem"] for row in reply.json["results"] if "problem" in row]
    assert [(p["code"], p["field"]) for p in problems] == [
        ("INVALID_FIELD", "messages[1].body"),
        ("UNKNOWN_FIELD", "messages[2].bodi"),
        ("UNKNOWN_TOPIC", "messages[3].topic"),
        ("INVALID_REQUEST", "messages[4]"),
    ]
    assert [record.value for record in read_all(bootstrap, topic)] == [b"A", b"B"]


@pytest.mark.parametrize("ack_mode", ["ALL", "1"])
def test_ack_modes_that_wait_say_where(
    gateway: GatewayProcess, new_topic: NewTopic, ack_mode: str
) -> None:
    reply = gateway.put(new_topic(), ackMode=ack_mode)
    assert (reply.status, reply.json["queueOffset"]) == (200, "0")


def test_ack_mode_0_answers_before_it_is_stored_and_still_stores_once(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    first = gateway.put(topic, ackMode="0", messageId="m")
    assert first.status == 202
    assert (first.json["queueOffset"], first.json["highWatermark"]) == (None, None)
    again = gateway.put(topic, ackMode="ALL", messageId="m")
    assert (again.status, again.json["queueOffset"]) == (200, "0")
    assert again.json["duplicate"] is True
    assert len(read_all(bootstrap, topic)) == 1


def test_a_topic_that_was_created_anew_knows_no_ids(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    assert gateway.put(topic, messageId="m").json["queueOffset"] == "0"
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic)
    gateway.put(topic, value=b"the gateway learns of the new topic")
    reply = gateway.put(topic, messageId="m")
    assert (reply.status, reply.json["duplicate"]) == (200, False)


def test_text_of_any_language_comes_through(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    text = "Заказ №5 – 注文 🛒 é"
    reply = gateway.put(topic, messageId=text, shardingKey=text, headers={text: text})
    assert (reply.status, reply.json["messageId"]) == (200, text)
    [record] = read_all(bootstrap, topic)
    assert record.key == text.encode()
    assert record.headers == [("message-id", text.encode()), (text, text.encode())]
    fetched = gateway.fetch(topic, 0, 0).json["messages"][0]
    assert fetched["messageId"] == fetched["shardingKey"] == text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messageId": "a\r\nb"}, "messageId"),
        ({"messageId": ""}, "messageId"),
        ({"messageId": "x" * 257}, "messageId"),
        ({"messageId": 7}, "messageId"),
        ({"headers": {"a\r\nb": "1"}}, "headers"),
        ({"headers": {"a": "1\r\nSet-Cookie: x"}}, "headers.a"),
        ({"headers": {"a": 1}}, "headers.a"),
        ({"headers": {"message-id": "x"}}, "headers.message-id"),
        ({"headers": []}, "headers"),
        ({"headers": {str(number): "" for number in range(101)}}, "headers"),
        ({"shardingKey": 5}, "shardingKey"),
        ({"ackMode": "all"}, "ackMode"),
        ({"ackMode": True}, "ackMode"),
        ({"ackMode": None}, "ackMode"),
        ({"body": "A"}, "body"),
        ({"body": "QQ"}, "body"),
        ({"body": "QQ==\n"}, "body"),
        ({"body": 5}, "body"),
        ({"body": "QQ==", "timestamp": 5}, "timestamp"),
    ],
)
def test_a_wrong_field_is_named(
    gateway: GatewayProcess, new_topic: NewTopic, fields: dict[str, Any], field: str
) -> None:
    reply = gateway.put(new_topic(), **fields)
    assert reply.status == 400
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.json["field"] == field
    assert len(reply.json["detail"]) > len(field) + 10, "it says what to do"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"topic": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"topic":"t","body":"QQ==","messageId":"\\ud800"}',
        b"1" * 5_000,
    ],
    ids=["empty", "half", "list", "null", "nan", "bytes", "deep", "surrogate", "digits"],
)
def test_what_is_no_message_is_refused(gateway: GatewayProcess, body: bytes) -> None:
    reply = gateway.call("PUT", "/api/v1/messages", body=body)
    assert reply.status == 400
    assert reply.json["status"] == 400
    json.dumps(reply.json).encode()


@pytest.mark.parametrize(
    ("topic", "status"),
    [("a/b", 400), ("..", 400), ("", 400), ("x" * 250, 400), ("никак", 400), ("absent", 404)],
)
def test_topics_that_cannot_be_are_refused(
    gateway: GatewayProcess, topic: str, status: int
) -> None:
    reply = gateway.put(topic)
    assert (reply.status, reply.json["field"]) == (status, "topic")


def test_topics_of_the_cluster_itself_are_refused(gateway: GatewayProcess) -> None:
    gateway.call(
        "POST",
        "/api/v1/offsets/commit",
        {"group": "g", "topic": "x", "partition": 0, "offset": 0},
    )
    reply = gateway.put(str(gateway.settings["dedup_topic"]))
    assert (reply.status, reply.json["code"]) == (403, "TOPIC_NOT_ALLOWED")


def test_a_message_that_the_topic_does_not_take_is_refused_alone(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(max_message_bytes="2000")
    rows = [{"body": "A" * 400}, {"body": "A" * 8000}, {"body": "B" * 400}]
    reply = gateway.put_batch(rows, topic=topic)
    assert reply.status == 207
    codes = [row.get("problem", {}).get("code") for row in reply.json["results"]]
    assert codes == [None, "MESSAGE_TOO_LARGE", None]
    assert len(read_all(bootstrap, topic)) == 2


def test_a_message_with_a_record_that_the_topic_refuses_is_refused_alone(
    gateway: GatewayProcess, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(record_validation="full", max_record_bytes="500", max_record_headers="3")
    rows = [
        {"body": "A" * 40, "headers": {str(number): "" for number in range(5)}},
        *({"body": "B" * 40} for _ in range(9)),
        {"body": "A" * 800},
        {"body": "B" * 40},
    ]
    reply = gateway.put_batch(rows, topic=topic)
    assert reply.status == 207
    problems = [row.get("problem", {}) for row in reply.json["results"]]
    codes = [problem.get("code") for problem in problems]
    assert codes == ["MESSAGE_REFUSED", *[None] * 9, "MESSAGE_TOO_LARGE", None]
    assert "max.record.headers allows 3" in problems[0]["detail"]
    assert len(read_all(bootstrap, topic)) == 10
