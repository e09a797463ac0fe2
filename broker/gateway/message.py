"""A message as clients write it in JSON: checked field by field, and made into what a record holds.

Pure. Every refusal names the field and says what to do; fields that are not known are refused, so
that a misspelt one is not lost in silence.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker.gateway.problem import Problem
from broker.headers import MESSAGE_ID, TRACEPARENT
from broker.records.build import VARINTS, encode_varint

MESSAGE_ID_BYTES_MAX: Final = 256
KEY_BYTES_MAX: Final = 32_768
HEADERS_MAX: Final = 100
HEADER_NAME_BYTES_MAX: Final = 256
HEADER_VALUE_BYTES_MAX: Final = 32_768
ACKS: Final[Mapping[Any, int]] = {"ALL": -1, "1": 1, "0": 0}
TOPIC_PATTERN: Final = "^[A-Za-z0-9._-]{1,249}$"

FIELDS: Final = ("topic", "shardingKey", "messageId", "headers", "body", "ackMode")
BATCH_FIELDS: Final = ("messages", "topic", "ackMode")
RESERVED: Final = frozenset({MESSAGE_ID.name, TRACEPARENT.name})

DIGEST_BYTES: Final = 16
TOPIC_LENGTH_MAX: Final = 249
NAMES_KEPT: Final = 4_096
"""Topics and header names whose check is remembered."""

NO_CONTENT: Final = hashlib.blake2b(digest_size=DIGEST_BYTES)
"""Copied for each message: that costs less than its parameters."""

_ABSENT: Final = object()
_ID_NAME: Final = MESSAGE_ID.name.encode()
_ID_START: Final = encode_varint(len(_ID_NAME)) + _ID_NAME
_NO_HEADERS: Final = (encode_varint(1) + _ID_START, b"")
_NULL: Final = encode_varint(-1)
_a2b_base64: Final = binascii.a2b_base64
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LINE_BREAK: Final = re.compile("[\x00\r\n]")
_KNOWN: Final = frozenset(FIELDS)


Headers = tuple[bytes, bytes]


class Message(NamedTuple):
    """One message to store. `message_id` is None when the client gave none; `content` is key and
    value, `headers` how a record's headers begin and how they go on behind the id, all as a record
    holds it; `digest` tells it from others.
    """

    topic: str
    key: bytes | None
    message_id: bytes | None
    content: bytes
    headers: Headers
    acks: int
    digest: bytes


def parse_json(body: bytes) -> Any:
    """The document. Raises Problem."""
    try:
        return _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:
        place = f": {error}" if isinstance(error, ValueError) else ": nested too deep"
        raise Problem("INVALID_REQUEST", f"the body must be one JSON document{place}") from None


def parse_message(
    document: Any, *, topic: str | None = None, acks: int = -1, trace: bytes | None = None
) -> Message:
    """One message; `topic` and `acks` stand in for fields that it does not have. The header row
    `trace` becomes its last, unless it has a trace of its own. Raises Problem.
    """
    if type(document) is not dict:
        raise Problem("INVALID_REQUEST", "a message must be an object")
    if not _KNOWN.issuperset(document):
        raise unknown_field(document, FIELDS)
    if "topic" in document or topic is None:
        topic = parse_topic(document)
    if "ackMode" in document:
        ack_mode = document["ackMode"]
        acks = -1 if ack_mode == "ALL" else parse_acks(ack_mode, "ackMode")
    message_id = document.get("messageId")
    if message_id is not None:
        message_id = check_text(message_id, "messageId", MESSAGE_ID_BYTES_MAX)
    key = document.get("shardingKey")
    if key is not None:
        key = _text_bytes(key, "shardingKey", KEY_BYTES_MAX)
    given = document.get("headers")
    if given is None and trace is None:
        headers, counted = _NO_HEADERS, b""
    else:
        headers, counted = parse_headers({} if given is None else given, trace)
    content = encode_content(key, _parse_body(document))
    digest = NO_CONTENT.copy()
    digest.update(content + counted)
    return _new(Message, (topic, key, message_id, content, headers, acks, digest.digest()))


def parse_batch(document: Mapping[str, Any], count_max: int) -> tuple[list[Any], str | None, int]:
    """The rows of `{"messages": […]}`, not yet parsed, and the topic and acks that stand in where a
    row has none. Raises Problem.
    """
    if not set(BATCH_FIELDS).issuperset(document):
        raise unknown_field(document, BATCH_FIELDS)
    rows = document["messages"]
    if type(rows) is not list or not rows:
        raise _wrong("messages", "must be a list of at least one message")
    if len(rows) > count_max:
        raise _wrong("messages", f"has {len(rows)} messages, at most {count_max} are taken at once")
    topic = parse_topic(document) if "topic" in document else None
    acks = parse_acks(document["ackMode"], "ackMode") if "ackMode" in document else -1
    return rows, topic, acks


def parse_topic(document: Mapping[str, Any]) -> str:
    """The field `topic`. Raises Problem."""
    if "topic" not in document:
        raise Problem("MISSING_FIELD", "topic: is required", field="topic")
    return check_topic(document["topic"], "topic")


def check_topic(topic: Any, field: str) -> str:
    """A name that a topic can have. Raises Problem."""
    if type(topic) is not str or len(topic) > TOPIC_LENGTH_MAX or not _is_topic(topic):
        raise _wrong(field, "must be 1 to 249 letters, digits, '.', '_' or '-'")
    return topic


@functools.lru_cache(NAMES_KEPT)
def _is_topic(topic: str) -> bool:
    return _TOPIC.match(topic) is not None and topic not in {".", ".."}


def parse_acks(value: Any, field: str) -> int:
    """ALL, 1 or 0 as -1, 1 or 0. Raises Problem."""
    if type(value) is int and value in {0, 1}:
        return value
    found = ACKS.get(value) if type(value) is str else None
    if found is None:
        raise _wrong(field, 'must be "ALL", "1" or "0"')
    return found


def check_text(value: Any, field: str, bytes_max: int) -> bytes:
    """The bytes of a text without control characters. Raises Problem."""
    if type(value) is not str or not value:
        raise _wrong(field, "must be a text that is not empty")
    if len(value) <= bytes_max and value.isascii() and value.isprintable():
        return value.encode()
    if has_control(value):
        raise _wrong(field, "must not hold control characters such as line breaks")
    return _text_bytes(value, field, bytes_max)


def has_control(text: str) -> bool:
    """Whether there are control characters in it, such as line breaks."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def encode_body(message: Message, message_id: bytes) -> bytes:
    """A record's key, value and headers, its id among them."""
    start, rest = message.headers
    return b"".join((message.content, start, encode_varint(len(message_id)), message_id, rest))


def encode_bodies(
    contents: Sequence[bytes], headers: Sequence[Headers], message_ids: Sequence[bytes]
) -> list[bytes]:
    """`encode_body` of many messages."""
    join, sizes = b"".join, VARINTS
    return [
        join((content, start, sizes[len(message_id)], message_id, rest))
        for content, (start, rest), message_id in zip(contents, headers, message_ids, strict=True)
    ]


def encode_content(key: bytes | None, value: bytes | None) -> bytes:
    """Key and value as a record holds them."""
    if key is not None and value is not None:
        return b"".join((encode_varint(len(key)), key, encode_varint(len(value)), value))
    return b"".join(
        (
            _NULL if key is None else encode_varint(len(key)) + key,
            _NULL if value is None else encode_varint(len(value)) + value,
        )
    )


def header_row(name: bytes, value: bytes | None) -> bytes:
    """A header as a record holds it."""
    encoded = _NULL if value is None else encode_varint(len(value)) + value
    return encode_varint(len(name)) + name + encoded


def content_digest(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> bytes:
    """What tells two messages apart, of a record: headers count in any order, but not the id and
    the trace.
    """
    rows = [header_row(name.encode(), each) for name, each in headers if name not in RESERVED]
    rows.sort()
    content = encode_content(key, value) + b"".join(rows)
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def unknown_field(document: Mapping[str, Any], known: Sequence[str]) -> Problem:
    """The problem of the first field that is not one of `known`."""
    name = next(str(name) for name in document if name not in known)
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    field = shown.encode("utf-8", "backslashreplace").decode()
    return Problem("UNKNOWN_FIELD", f"{field}: the fields are {', '.join(known)}", field=field)


def parse_headers(headers: Any, trace: bytes | None) -> tuple[Headers, bytes]:
    """(the headers, those that count for the digest in one order); see `parse_message`. Raises
    Problem.
    """
    if type(headers) is not dict:
        raise _wrong("headers", 'must be an object of texts, as {"source": "shop"}')
    if len(headers) > HEADERS_MAX:
        advice = f"has {len(headers)} headers, at most {HEADERS_MAX} are taken"
        raise _wrong("headers", advice)
    rows = []
    counted = []
    for name, value in headers.items():
        start = _header_start(name)
        if type(value) is not str:
            raise _wrong(f"headers.{name}", "must be a text")
        if not value.isprintable() and _LINE_BREAK.search(value):
            advice = "must hold no CR, LF or NUL: encode it, for example in base64"
            raise _wrong(f"headers.{name}", advice)
        encoded = _text_bytes(value, "headers", HEADER_VALUE_BYTES_MAX)
        row = start + encode_varint(len(encoded)) + encoded
        rows.append(row)
        if name not in RESERVED:
            counted.append(row)
    counted.sort()
    if trace is not None and TRACEPARENT.name not in headers:
        rows.append(trace)
    return (encode_varint(len(rows) + 1) + _ID_START, b"".join(rows)), b"".join(counted)


@functools.lru_cache(NAMES_KEPT)
def _header_start(name: str) -> bytes:
    """A header's name as a row begins with it; names repeat. Raises Problem."""
    encoded = check_text(name, "headers", HEADER_NAME_BYTES_MAX)
    if name == MESSAGE_ID.name:
        raise _wrong(f"headers.{name}", "give the id in the field messageId instead")
    return encode_varint(len(encoded)) + encoded


def _parse_body(document: Mapping[str, Any]) -> bytes | None:
    body = document.get("body", _ABSENT)
    if type(body) is str:
        try:
            return _a2b_base64(body, strict_mode=True)
        except (ValueError, binascii.Error) as error:
            raise _wrong("body", f"must be base64 with padding (RFC 4648): {error}") from None
    if body is None:
        return None
    if body is _ABSENT:
        advice = "is required: base64, or null for a message without a value"
        raise Problem("MISSING_FIELD", f"body: {advice}", field="body")
    raise _wrong("body", "must be base64 in a text, or null")


def _text_bytes(value: Any, field: str, bytes_max: int) -> bytes:
    if type(value) is not str:
        raise _wrong(field, "must be a text")
    if len(value) <= bytes_max and value.isascii():
        return value.encode()
    try:
        encoded: bytes = value.encode()
    except UnicodeEncodeError:
        raise _wrong(field, "holds half of a surrogate pair, which is no text") from None
    if len(encoded) > bytes_max:
        raise _wrong(field, f"has {len(encoded)} bytes, at most {bytes_max} are taken")
    return encoded


def _wrong(field: str, advice: str) -> Problem:
    shown = field.encode("utf-8", "backslashreplace").decode()
    return Problem("INVALID_FIELD", f"{shown}: {advice}", field=shown)


def _refuse_constant(text: str) -> Any:
    msg = f"{text} is no JSON"
    raise ValueError(msg)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
