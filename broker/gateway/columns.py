"""Many messages at once: what `message.parse_message` does with one, a field of all rows at a time.

Pure. The loops run in C, which makes a usual message cost half. The result is what `parse_message`
gives for each row. Where one of them is refused, or has what is seldom, there is none: then the
rows are parsed one by one, so that one place alone says what is wrong.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from itertools import chain, repeat
from types import NoneType
from typing import Any, Final

from broker.gateway.message import (
    ACKS,
    FIELDS,
    KEY_BYTES_MAX,
    MESSAGE_ID_BYTES_MAX,
    NO_CONTENT,
    Headers,
    Message,
    check_topic,
    encode_content,
    has_control,
    parse_headers,
)
from broker.gateway.problem import Problem
from broker.records.build import VARINTS

_KNOWN: Final = frozenset(FIELDS)
_TEXT: Final = frozenset({str})
_TEXT_OR_NULL: Final = frozenset({str, NoneType})
_OBJECT_OR_NULL: Final = frozenset({dict, NoneType})
_ABSENT: Final = 0
"""Of no type that a field has."""
_MODES: Final = {acks: mode for mode, acks in ACKS.items()}
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame
_a2b_base64: Final = binascii.a2b_base64


def parse_messages(
    rows: Sequence[Any], *, topic: str | None, acks: int, trace: bytes | None
) -> list[Message] | None:
    """What `parse_message` makes of each row; None when they must be parsed one by one."""
    try:
        if not _KNOWN.issuperset(chain.from_iterable(rows)):
            return None
        topics = _column(rows, "topic", topic)
        modes = _column(rows, "ackMode", _MODES[acks])
        for name in set(topics):
            check_topic(name, "topic")
        if not _TEXT.issuperset(map(type, set(modes))):
            return None
        acks_of_rows = [ACKS[mode] for mode in modes]
        keys = _encode_texts(_column(rows, "shardingKey", None), KEY_BYTES_MAX)
        ids = _encode_ids(_column(rows, "messageId", None))
        values = _decode_bodies(_column(rows, "body", _ABSENT))
        headers, counted = _parse_headers(_column(rows, "headers", None), trace)
    except (Problem, TypeError, ValueError, KeyError):
        return None
    contents = _encode_contents(keys, values)
    digests = _digests(contents, counted)
    columns = zip(topics, keys, ids, contents, headers, acks_of_rows, digests, strict=True)
    return list(map(_new, repeat(Message), columns))


def _column(rows: Sequence[Any], name: str, default: Any) -> list[Any]:
    """Raises TypeError for a row that is no object."""
    return list(map(dict.get, rows, repeat(name), repeat(default)))


def _encode_ids(texts: list[Any]) -> list[bytes | None]:
    """Raises ValueError for what is no usual id."""
    encoded = _encode_texts(texts, MESSAGE_ID_BYTES_MAX)
    given = texts if None not in texts else [text for text in texts if text is not None]
    if given and (has_control("".join(given)) or not all(given)):
        raise ValueError("an empty id, or one with control characters")
    return encoded


def _encode_texts(texts: list[Any], bytes_max: int) -> list[bytes | None]:
    """Raises ValueError for what is no text, and for one that is too long."""
    kinds = set(map(type, texts))
    encoded: list[bytes | None]
    if kinds == _TEXT:
        encoded = list(map(str.encode, texts))
        longest = max(map(len, encoded))  # type: ignore[arg-type]
    elif kinds <= _TEXT_OR_NULL:
        encoded = [None if text is None else text.encode() for text in texts]
        longest = max([len(each) for each in encoded if each is not None], default=0)
    else:
        raise ValueError("no text")
    if longest > bytes_max:
        raise ValueError("too long")
    return encoded


def _decode_bodies(bodies: list[Any]) -> list[bytes | None]:
    """Raises ValueError for what is no base64."""
    if not _TEXT_OR_NULL.issuperset(map(type, bodies)):
        raise ValueError("no text")
    return [None if body is None else _a2b_base64(body, strict_mode=True) for body in bodies]


def _parse_headers(
    column: list[Any], trace: bytes | None
) -> tuple[Sequence[Headers], Sequence[bytes]]:
    """(the headers, those that count for the digest); what is the same in many rows is looked at
    once. Raises Problem, and TypeError for values that are no text.
    """
    if not _OBJECT_OR_NULL.issuperset(map(type, column)):
        raise TypeError("no object")
    shapes = [tuple(given.items()) if given else () for given in column]
    known = {shape: parse_headers(dict(shape), trace) for shape in set(shapes)}
    headers, counted = zip(*map(known.__getitem__, shapes), strict=True)
    return headers, counted


def _encode_contents(
    keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> Sequence[bytes]:
    """Key and value of each, as a record holds them."""
    try:
        join = b"".join
        return [
            join((VARINTS[len(key)], key, VARINTS[len(value)], value))  # type: ignore[arg-type]
            for key, value in zip(keys, values, strict=True)
        ]
    except (TypeError, IndexError):  # a null, or a long one
        return list(map(encode_content, keys, values))


def _digests(contents: Sequence[bytes], counted: Sequence[bytes]) -> list[bytes]:
    found = []
    copy = NO_CONTENT.copy
    for content, more in zip(contents, counted, strict=True):
        digest = copy()
        digest.update(content + more)
        found.append(digest.digest())
    return found
