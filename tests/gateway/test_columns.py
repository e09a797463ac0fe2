"""A batch's messages, looked at a field at a time, are what they are one by one."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.gateway.columns import parse_messages
from broker.gateway.ids import id_key, id_keys
from broker.gateway.lane import Lane, Put
from broker.gateway.message import Message, encode_bodies, encode_body, header_row, parse_message
from broker.gateway.problem import Problem
from broker.model import NO_TOPIC_ID, TopicPartition

TRACE = header_row(b"traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01")
USUAL_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")))
NAMES = st.sampled_from(["event-type", "source", "traceparent", "ü"]) | USUAL_TEXT.filter(
    lambda name: 0 < len(name) < 60 and name != "message-id"
)
BODIES = st.binary(max_size=5_000).map(lambda value: base64.b64encode(value).decode())
USUAL = st.fixed_dictionaries(
    {"body": st.none() | BODIES},
    optional={
        "topic": st.sampled_from(["orders", "a.b-c_D"]),
        "shardingKey": st.none() | USUAL_TEXT | st.just("k" * 5_000),
        "messageId": st.none() | USUAL_TEXT.filter(lambda text: 0 < len(text) < 60),
        "headers": st.none() | st.dictionaries(NAMES, USUAL_TEXT, max_size=4),
        "ackMode": st.sampled_from(["ALL", "1", "0"]),
    },
)
ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.sampled_from(
        [*("", "a\nb", "\ud800", "x" * 257, "QQ", "Q===", "QQ==\n", "Q\x00Q="), *("..", "ALL", "é")]
    ),
    st.lists(st.text(max_size=2), max_size=2),
    st.dictionaries(
        st.sampled_from(["a", "message-id", "", "b\r", "traceparent"]),
        st.text(max_size=3) | st.none() | st.lists(st.none(), max_size=1),
        max_size=3,
    ),
)
FIELD = st.sampled_from(
    ["topic", "shardingKey", "messageId", "headers", "body", "ackMode", "messageID", "\ud800"]
)
STRANGE = st.one_of(
    st.builds(lambda row, name, value: {**row, name: value}, USUAL, FIELD, ANY_VALUE),
    st.builds(lambda row: {k: v for k, v in row.items() if k != "body"}, USUAL),
    ANY_VALUE,
)


def one_by_one(rows: list[Any], **options: Any) -> list[Message | Problem]:
    found: list[Message | Problem] = []
    for row in rows:
        try:
            found.append(parse_message(row, **options))
        except Problem as problem:
            found.append(problem)
    return found


@settings(deadline=None)
@given(
    st.lists(USUAL, min_size=1, max_size=12),
    st.none() | st.just("orders"),
    st.sampled_from([-1, 0, 1]),
    st.none() | st.just(TRACE),
)
def test_usual_messages_are_taken_together_and_are_the_same(
    rows: list[Any], topic: str | None, acks: int, trace: bytes | None
) -> None:
    if topic is None:
        rows = [{"topic": "orders", **row} for row in rows]
    together = parse_messages(rows, topic=topic, acks=acks, trace=trace)
    assert together == one_by_one(rows, topic=topic, acks=acks, trace=trace)
    assert all(type(message) is Message for message in together or [])


@settings(deadline=None)
@given(st.lists(USUAL | STRANGE, min_size=1, max_size=6), st.none() | st.just("orders"))
def test_what_is_taken_together_is_never_what_is_refused_alone(
    rows: list[Any], topic: str | None
) -> None:
    together = parse_messages(rows, topic=topic, acks=-1, trace=None)
    alone = one_by_one(rows, topic=topic, acks=-1)
    assert together is None or together == alone
    if any(isinstance(each, Problem) for each in alone):
        assert together is None


@pytest.mark.parametrize("other", [True, 1, 1.0, "1 "])
def test_an_ack_mode_that_equals_another_is_not_taken_for_it(other: object) -> None:
    rows = [{"body": None, "ackMode": mode} for mode in ("1", "1", other)]
    assert parse_messages(rows, topic="t", acks=-1, trace=None) is None


@pytest.mark.parametrize("value", [1, True, None, ["1"]])
def test_header_values_of_another_type_are_seen_behind_equal_ones(value: object) -> None:
    rows = [{"body": None, "headers": {"a": each}} for each in ("1", "1", value)]
    assert parse_messages(rows, topic="t", acks=-1, trace=None) is None


@settings(deadline=None)
@given(st.lists(USUAL, min_size=1, max_size=20), st.binary(min_size=16, max_size=16))
def test_a_batch_of_many_at_once_is_the_same_bytes(rows: list[Any], topic_id: bytes) -> None:
    rows = [{**row, "messageId": f"id {place}"} for place, row in enumerate(rows)]
    messages = parse_messages(rows, topic="orders", acks=-1, trace=TRACE)
    assert messages is not None
    ids = [message.message_id or b"" for message in messages]
    bodies = encode_bodies(
        [message.content for message in messages], [message.headers for message in messages], ids
    )
    keys = id_keys("orders", topic_id, ids)
    together, singly = (Lane(TopicPartition("orders", 0), topic_id) for _ in range(2))
    puts = [Put(*each, b"", None, 0, is_kept=True) for each in zip(bodies, keys, strict=True)]
    size = together.extend(puts[:3], -1, 5.0) + together.extend(puts[3:], -1, 5.0)
    for row, message_id in zip(rows, ids, strict=True):
        message = parse_message(row, topic="orders", trace=TRACE)
        key = id_key("orders", topic_id, message_id)
        put = Put(encode_body(message, message_id), key, b"", None, 0, is_kept=True)
        singly.append(put, -1, 5.0)
    assert together.encode_head(7) == singly.encode_head(7)
    assert size == together.queue[0].size == singly.queue[0].size
    assert keys == [put.id_key for put in singly.queue[0].puts]


def test_ids_of_topics_without_an_id_are_the_same_together() -> None:
    ids = [b"a", b"b" * 300]
    assert id_keys("t", NO_TOPIC_ID, ids) == [id_key("t", NO_TOPIC_ID, each) for each in ids]
    assert len(set(id_keys("t", NO_TOPIC_ID, ids) + id_keys("u", NO_TOPIC_ID, ids))) == 4


def test_what_does_not_fit_into_a_batch_begins_the_next() -> None:
    lane = Lane(TopicPartition("orders", 0), b"")
    puts = [Put(b"x" * 100_000, b"", b"", None, 0, is_kept=False) for _ in range(12)]
    assert lane.extend(puts, -1, 0.0) == sum(put.size for put in puts)
    assert [len(batch.puts) for batch in lane.queue] == [5, 5, 2]
    lane.encode_head(0)
    small = Put(b"y", b"", b"", None, 0, is_kept=False)
    lane.extend([small], 1, 0.0)
    assert [batch.acks for batch in lane.queue] == [-1, -1, -1, 1]
