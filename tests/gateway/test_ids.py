"""Ids in memory and as records of the ids topic; digests of messages."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.gateway.ids import (
    CLAIMS,
    GENERATIONS,
    IDS,
    OWNER,
    Block,
    Claim,
    FirstAnswer,
    IdIndex,
    Owner,
    UnknownFormat,
    decode,
    encode_block,
    encode_claims,
    encode_owner,
    id_key,
)
from broker.gateway.message import content_digest, encode_body, parse_message
from broker.gateway.recovery import History
from broker.model import NO_TOPIC_ID, TopicPartition
from broker.records.build import append_record, frame_batch
from broker.records.iterate import iterate_records

WINDOW_MS = 8_000.0
WHERE = TopicPartition("orders", 3)
ID16 = st.binary(min_size=16, max_size=16)
INT64 = st.integers(0, 2**63 - 1)


def answer(offset: int) -> FirstAnswer:
    return FirstAnswer(1, offset, offset + 1, bytes(16))


@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 9)), max_size=60))
def test_an_id_is_found_for_the_window_and_not_much_longer(puts: list[tuple[int, int]]) -> None:
    index = IdIndex(WINDOW_MS)
    first: dict[int, tuple[int, int]] = {}  # id -> (time, offset) of the answer that counts
    for offset, (now_ms, number) in enumerate(sorted(puts)):
        index.expire(now_ms)
        key = number.to_bytes(16, "big")
        found = index.find(key)
        known = first.get(number)
        if known is not None and now_ms - known[0] <= WINDOW_MS:
            assert found is not None
            assert found.offset == known[1]
        if found is None:
            assert known is None or now_ms - known[0] > WINDOW_MS
            index.add_new([(key, bytes(16), offset, offset + 1, 0)], 1, now_ms)
            first[number] = (now_ms, offset)
        else:
            assert now_ms - first[number][0] <= WINDOW_MS * (1 + 2 / GENERATIONS)
    assert len(index) <= len(first)


def test_a_known_id_keeps_its_answer_and_is_counted_once() -> None:
    index = IdIndex(WINDOW_MS)
    index.add(b"k", answer(5), 100)
    index.add(b"k", answer(9), 7_000)
    assert index.find(b"k") == answer(5)
    assert len(index) == 1
    index.expire(100 + WINDOW_MS + WINDOW_MS / GENERATIONS)
    assert (index.find(b"k"), len(index)) == (None, 0)


def test_room_comes_when_the_oldest_ids_are_forgotten() -> None:
    index = IdIndex(WINDOW_MS)
    index.add(b"k", answer(5), 100)
    index.expire(index.room_after_ms(500) + 500 + 1)
    assert len(index) == 0


def test_ids_differ_by_topic_and_by_incarnation_of_a_topic() -> None:
    keys = {
        id_key("a", NO_TOPIC_ID, b"m"),
        id_key("b", NO_TOPIC_ID, b"m"),
        id_key("a", b"1" * 16, b"m"),
        id_key("a", b"2" * 16, b"m"),
        id_key("a", b"1" * 16, b"n"),
    }
    assert len(keys) == 5
    assert id_key("renamed", b"1" * 16, b"m") == id_key("a", b"1" * 16, b"m")


@given(st.lists(st.tuples(ID16, ID16, INT64, INT64, INT64), max_size=20), ID16, INT64)
def test_a_block_comes_back(
    entries: list[tuple[bytes, bytes, int, int, int]], topic_id: bytes, position: int
) -> None:
    block = Block(WHERE, topic_id, position, entries)
    assert list(decode(IDS, encode_block(block))) == [block]


@given(st.lists(st.tuples(ID16, INT64, INT64, st.integers(0, 32_767), st.booleans()), max_size=9))
def test_claims_and_owners_come_back(rows: list[tuple[bytes, int, int, int, bool]]) -> None:
    claims = [Claim(WHERE, *row) for row in rows]
    assert list(decode(CLAIMS, encode_claims(claims))) == claims
    owner = Owner("gateway", 2**62, 7)
    assert list(decode(OWNER, encode_owner(owner))) == [owner]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (IDS, b"{}\n"),
        (IDS, encode_block(Block(WHERE, bytes(16), 1, [])) + b"short"),
        (CLAIMS, b"not json"),
        (OWNER, json.dumps({"version": 2}).encode()),
        (CLAIMS, b'{"version":1,"claims":[{"topic":"t"}]}'),
    ],
)
def test_records_that_cannot_be_read_are_named(key: bytes, value: bytes) -> None:
    with pytest.raises(UnknownFormat):
        list(decode(key, value))


def test_records_of_others_in_the_topic_are_left_alone() -> None:
    assert list(decode(b"else", b"x")) == []
    assert list(decode(None, b"x")) == []
    assert list(decode(IDS, None)) == []


def test_history_takes_no_epoch_for_an_earlier_one() -> None:
    history = History()
    newest = Claim(WHERE, bytes(16), 10, 7, 3, is_open=True)
    for row in (Owner("a", 5, 9), Owner("a", 5, 4), newest, newest._replace(producer_epoch=2)):
        history.apply(row)
    assert (history.owner, history.claims) == (Owner("a", 5, 9), {WHERE: newest})
    history.apply(Owner("b", 6, 0))
    history.apply(newest._replace(producer_id=8, producer_epoch=0))
    assert history.owner == Owner("b", 6, 0), "another producer begins with epoch 0"
    assert history.claims[WHERE].producer_id == 8


def test_history_keeps_the_last_owner_and_moves_claims_by_their_blocks() -> None:
    history = History()
    claim = Claim(WHERE, b"1" * 16, 10, 77, 0, is_open=True)
    history.apply(Owner("a", 5, 0))
    history.apply(claim)
    history.apply(Block(WHERE, b"1" * 16, 15, []))
    history.apply(Block(WHERE, b"2" * 16, 99, []))  # of a topic that was there before
    history.apply(Owner("b", 5, 1))
    assert history.owner == Owner("b", 5, 1)
    assert history.claims == {WHERE: claim._replace(position=15)}


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")))
HEADERS = st.dictionaries(
    TEXT.filter(lambda name: 0 < len(name) < 50 and name != "message-id"), TEXT, max_size=5
)


@given(st.none() | TEXT, st.none() | st.binary(max_size=9_000), HEADERS)
def test_a_stored_record_has_the_digest_of_its_message(
    key: str | None, value: bytes | None, headers: dict[str, str]
) -> None:
    """After a crash the digest is computed from the record: it must be the same."""
    document = {
        "topic": "t",
        "shardingKey": key,
        "headers": headers,
        "body": None if value is None else base64.b64encode(value).decode(),
    }
    message = parse_message(document)
    payload = bytearray()
    append_record(payload, 0, 0, encode_body(message, b"the id"))
    batch = frame_batch(
        payload,
        record_count=1,
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        codec=0,
        producer=(1, 0, 0),
        base_offset=0,
        leader_epoch=0,
        attributes=0,
    )
    [record] = iterate_records(memoryview(batch))
    assert record.key == (None if key is None else key.encode())
    assert record.value == value
    assert record.headers[0] == ("message-id", b"the id")
    assert dict(record.headers[1:]) == {name: text.encode() for name, text in headers.items()}
    assert content_digest(record.key, record.value, record.headers) == message.digest


def test_what_differs_has_another_digest() -> None:
    rows = [
        {"body": None},
        {"body": ""},
        {"body": "", "shardingKey": ""},
        {"body": "QQ=="},
        {"body": None, "shardingKey": "A"},
        {"body": "QQ==", "headers": {"a": "b"}},
        {"body": "QQ==", "headers": {"ab": ""}},
        {"body": "QQ==", "headers": {"a": "b", "c": "d"}},
    ]
    digests = {parse_message({"topic": "t", **row}).digest for row in rows}
    assert len(digests) == len(rows)
