"""A message as clients write it in JSON: checked field by field, and made into what a record holds.

Pure. Every refusal names the field and says what to do; fields that are not known are refused, so
that a misspelt one is not lost in silence.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from broker.gateway.problem import Problem
from broker.headers import MESSAGE_ID, TRACEPARENT

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

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LINE_BREAK: Final = re.compile("[\x00\r\n]")
_KNOWN: Final = frozenset(FIELDS)


class Message(NamedTuple):
    """One message to store. `message_id` is None when the client gave none; `digest` is of what the
    record holds but for the id and the trace.
    """

    topic: str
    key: bytes | None
    message_id: str | None
    headers: list[tuple[str, bytes | None]]
    value: bytes | None
    acks: int
    digest: bytes


def parse_json(body: bytes) -> Any:
    """The document. Raises Problem."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        place = f": {error}" if isinstance(error, ValueError) else ": nested too deep"
        raise Problem("INVALID_REQUEST", f"the body must be one JSON document{place}") from None


def parse_message(
    document: Any, where: str = "", *, topic: str | None = None, acks: int | None = None
) -> Message:
    """One message; `topic` and `acks` stand in for fields that it does not have. Raises Problem
    (`where` comes before the field's name).
    """
    if type(document) is not dict:
        name = where.rstrip(".") or None
        raise Problem("INVALID_REQUEST", f"{name or 'the body'}: must be an object", field=name)
    if not _KNOWN.issuperset(document):
        raise unknown_field(document, FIELDS, where)
    if "topic" in document or topic is None:
        topic = parse_topic(document, where)
    if "ackMode" in document:
        acks = parse_acks(document["ackMode"], f"{where}ackMode")
    message_id = document.get("messageId")
    if message_id is not None:
        check_text(message_id, f"{where}messageId", MESSAGE_ID_BYTES_MAX)
    sharding_key = document.get("shardingKey")
    key = None
    if sharding_key is not None:
        key = _text_bytes(sharding_key, f"{where}shardingKey", KEY_BYTES_MAX)
    raw_headers = document.get("headers")
    headers = [] if not raw_headers else _parse_headers(raw_headers, f"{where}headers")
    if raw_headers is not None and type(raw_headers) is not dict:
        raise _wrong(f"{where}headers", 'must be an object of texts, as {"source": "shop"}')
    value = _parse_body(document, where)
    digest = content_digest(key, value, headers)
    return Message(topic, key, message_id, headers, value, -1 if acks is None else acks, digest)


def parse_batch(document: Mapping[str, Any], count_max: int) -> tuple[list[Any], str | None, int]:
    """The rows of `{"messages": […]}`, not yet parsed, and the topic and acks that stand in where a
    row has none. Raises Problem.
    """
    if not set(BATCH_FIELDS).issuperset(document):
        raise unknown_field(document, BATCH_FIELDS, "")
    rows = document["messages"]
    if type(rows) is not list or not rows:
        raise _wrong("messages", "must be a list of at least one message")
    if len(rows) > count_max:
        raise _wrong("messages", f"has {len(rows)} messages, at most {count_max} are taken at once")
    topic = parse_topic(document, "") if "topic" in document else None
    acks = parse_acks(document["ackMode"], "ackMode") if "ackMode" in document else -1
    return rows, topic, acks


def parse_topic(document: Mapping[str, Any], where: str) -> str:
    """The field `topic`. Raises Problem."""
    if "topic" not in document:
        raise Problem("MISSING_FIELD", f"{where}topic: is required", field=f"{where}topic")
    return check_topic(document["topic"], f"{where}topic")


def check_topic(topic: Any, field: str) -> str:
    """A name that a topic can have. Raises Problem."""
    if type(topic) is not str or _TOPIC.match(topic) is None or topic in {".", ".."}:
        raise _wrong(field, "must be 1 to 249 letters, digits, '.', '_' or '-'")
    return topic


def parse_acks(value: Any, field: str) -> int:
    """ALL, 1 or 0 as -1, 1 or 0. Raises Problem."""
    if type(value) is int and value in {0, 1}:
        return value
    found = ACKS.get(value) if type(value) is str else None
    if found is None:
        raise _wrong(field, 'must be "ALL", "1" or "0"')
    return found


def check_text(value: Any, field: str, bytes_max: int) -> str:
    """A text without control characters. Raises Problem."""
    if type(value) is not str or not value:
        raise _wrong(field, "must be a text that is not empty")
    if not (value.isascii() and value.isprintable()) and _CONTROL.search(value):
        raise _wrong(field, "must not hold control characters such as line breaks")
    _text_bytes(value, field, bytes_max)
    return value


def content_digest(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> bytes:
    """16 bytes that tell two messages apart; headers count in any order, but not the id and the
    trace.
    """
    parts = [_length(key), key or b"", _length(value), value or b""]
    if headers:
        for name, content in sorted(headers, key=lambda row: row[0]):
            if name not in RESERVED:
                encoded = name.encode()
                parts += [_length(encoded), encoded, _length(content), content or b""]
    return blake2b(b"".join(parts), digest_size=16).digest()


def unknown_field(document: Mapping[str, Any], known: Sequence[str], where: str) -> Problem:
    """The problem of the first field that is not one of `known`."""
    name = next(str(name) for name in document if name not in known)
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    field = where + shown.encode("utf-8", "backslashreplace").decode()
    return Problem("UNKNOWN_FIELD", f"{field}: the fields are {', '.join(known)}", field=field)


def _parse_headers(headers: Any, where: str) -> list[tuple[str, bytes | None]]:
    if type(headers) is not dict:
        raise _wrong(where, 'must be an object of texts, as {"source": "shop"}')
    if len(headers) > HEADERS_MAX:
        raise _wrong(where, f"has {len(headers)} headers, at most {HEADERS_MAX} are taken")
    found: list[tuple[str, bytes | None]] = []
    for name, value in headers.items():
        check_text(name, where, HEADER_NAME_BYTES_MAX)
        if name == MESSAGE_ID.name:
            raise _wrong(f"{where}.{name}", "give the id in the field messageId instead")
        if type(value) is not str:
            raise _wrong(f"{where}.{name}", "must be a text")
        if _LINE_BREAK.search(value):
            advice = "must hold no CR, LF or NUL: encode it, for example in base64"
            raise _wrong(f"{where}.{name}", advice)
        found.append((name, _text_bytes(value, f"{where}.{name}", HEADER_VALUE_BYTES_MAX)))
    return found


def _parse_body(document: Mapping[str, Any], where: str) -> bytes | None:
    try:
        body = document["body"]
    except KeyError:
        advice = "is required: base64, or null for a message without a value"
        raise Problem("MISSING_FIELD", f"{where}body: {advice}", field=f"{where}body") from None
    if body is None:
        return None
    if type(body) is not str:
        raise _wrong(f"{where}body", "must be base64 in a text, or null")
    try:
        return binascii.a2b_base64(body, strict_mode=True)
    except (ValueError, binascii.Error) as error:
        raise _wrong(f"{where}body", f"must be base64 with padding (RFC 4648): {error}") from None


def _text_bytes(value: Any, field: str, bytes_max: int) -> bytes:
    if type(value) is not str:
        raise _wrong(field, "must be a text")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise _wrong(field, "holds half of a surrogate pair, which is no text") from None
    if len(encoded) > bytes_max:
        raise _wrong(field, f"has {len(encoded)} bytes, at most {bytes_max} are taken")
    return encoded


def _length(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big")


def _wrong(field: str, advice: str) -> Problem:
    shown = field.encode("utf-8", "backslashreplace").decode()
    return Problem("INVALID_FIELD", f"{shown}: {advice}", field=shown)


def _refuse_constant(text: str) -> Any:
    msg = f"{text} is no JSON"
    raise ValueError(msg)
