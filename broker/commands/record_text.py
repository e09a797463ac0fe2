"""Records from text and JSON lines, and to them. Pure but for the stream that is split.

JSON of a record, one object a line: topic, partition, offset, timestamp_ms (64-bit numbers as
strings), key, value, headers: [{name, value}]. Null is null. Bytes that are not UTF-8 are base64 in
`key_base64`, `value_base64` instead. Reading takes key, value, headers and timestamp_ms; the rest
says where the record was, not where it goes. A field of another name is refused, so that a misspelt
one is not lost in silence.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

from broker.client.fetcher import ConsumedRecord
from broker.commands import text
from broker.commands.text import BadText
from broker.commands.values import read_escaped
from broker.model import INT64_MAX

RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
LINE_FORMAT: Final = "%p %o %I %k %s\\n"
_FIELDS: Final = "tpokshTIS%"
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")

_JSON_FIELDS: Final = (
    *("key", "key_base64", "value", "value_base64", "headers", "timestamp_ms"),
    *("topic", "partition", "offset"),
)

Headers = tuple[tuple[str, bytes | None], ...]


class Parsed(NamedTuple):
    """A record to send. `timestamp_ms` None is the present."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


async def split(chunks: AsyncIterator[bytes], delimiter: bytes | None) -> AsyncIterator[bytes]:
    """What is between delimiters (None: everything is one piece); an empty last piece is none.

    Raises BadText for a piece of over RECORD_BYTES_MAX.
    """
    rest = bytearray()
    async for chunk in chunks:
        searched = max(0, len(rest) - len(delimiter or b"") + 1)
        rest += chunk
        if delimiter is not None and rest.find(delimiter, searched) >= 0:
            *pieces, left = bytes(rest).split(delimiter)
            rest = bytearray(left)
            for piece in pieces:
                yield piece
        if len(rest) > RECORD_BYTES_MAX:
            raise BadText(
                f"a record of over {text.size(RECORD_BYTES_MAX)}: is the delimiter right?"
            )
    if rest or delimiter is None:
        yield bytes(rest)


def parse_text(
    piece: bytes,
    name: str,
    *,
    key: bytes | None,
    separator: bytes | None,
    marker: bytes | None,
) -> Parsed:
    """A record of plain text. Raises BadText, with the piece's `name`, when it has no separator."""
    value: bytes | None = piece
    if separator is not None:
        key, found, value = piece.partition(separator)
        if not found:
            shown = separator.decode(errors="replace")
            raise BadText(f"{name} has no {shown!r} that would end its key (--key-separator)")
    return Parsed(None if key == marker else key, None if value == marker else value)


def parse_json(piece: bytes, name: str, *, key: bytes | None) -> Parsed:
    """A record of one JSON object; `key` is used where it has none. Raises BadText."""
    try:
        found = json.loads(piece)
    except (ValueError, RecursionError) as error:
        raise BadText(f"{name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadText(f"{name} is not an object of key, value, headers, timestamp_ms")
    unknown = next((field for field in found if field not in _JSON_FIELDS), None)
    if unknown is not None:
        raise BadText(f"{name}: unknown field {unknown!r}; there are {', '.join(_JSON_FIELDS)}")
    if not {"value", "value_base64"} & found.keys():
        raise BadText(f"{name} has no value; null would be a tombstone")
    has_key = bool({"key", "key_base64"} & found.keys())
    return Parsed(
        _content(found, "key", name) if has_key else key,
        _content(found, "value", name),
        _headers(found.get("headers") or [], name),
        _timestamp(found.get("timestamp_ms"), name),
    )


def _content(found: dict[str, Any], field: str, name: str) -> bytes | None:
    encoded = found.get(f"{field}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BadText(f"{name}: {field}_base64 is not base64") from None
    plain = found.get(field)
    if plain is None:
        return None
    if not isinstance(plain, str):
        raise BadText(
            f"{name}: {field} is {type(plain).__name__}, not text or null; JSON goes into a string"
        )
    return _encode(plain, field, name)


def _encode(plain: str, field: str, name: str) -> bytes:
    try:
        return plain.encode()
    except UnicodeEncodeError:
        raise BadText(f"{name}: {field} holds half of a surrogate pair, which is no text") from None


def _headers(rows: Any, name: str) -> Headers:
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("name"), str) for row in rows
    ):
        raise BadText(f"{name}: headers are a list of objects with name and value")
    for row in rows:
        _encode(row["name"], "a header's name", name)
    return tuple((row["name"], _content(row, "value", name)) for row in rows)


def _timestamp(found: Any, name: str) -> int | None:
    if found is None:
        return None
    word = str(found)
    is_number = word.isdecimal() and len(word) <= len(str(INT64_MAX)) and int(word) <= INT64_MAX
    if not is_number or isinstance(found, bool):
        raise BadText(f"{name}: timestamp_ms is {word[:40]!r}, not milliseconds since 1970")
    return int(word)


def record_json(record: ConsumedRecord) -> dict[str, Any]:
    """The JSON object of a record."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": str(record.offset),
        "timestamp_ms": str(record.timestamp_ms),
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [{"name": name, **_field("value", each)} for name, each in record.headers],
    }


def _field(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def writer(form: str, null: bytes) -> Callable[[ConsumedRecord], bytes]:
    """How a record looks in a --format. Raises BadText."""
    if form == "value":
        return lambda record: (null if record.value is None else record.value) + b"\n"
    parts = _parts(LINE_FORMAT if form == "line" else form)

    def write(record: ConsumedRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record, null) for part in parts)

    return write


def _parts(form: str) -> list[bytes | Callable[[ConsumedRecord, bytes], bytes]]:
    parts: list[bytes | Callable[[ConsumedRecord, bytes], bytes]] = []
    pieces = form.split("%")
    parts.append(read_escaped(pieces[0]).encode("utf-8", "surrogateescape"))
    position = 1
    while position < len(pieces):
        piece = pieces[position]
        if piece == "" and position + 1 < len(pieces):  # %%
            parts.append(b"%")
            position += 1
            piece = "%" + pieces[position]
        elif piece[:1] not in _WRITERS:
            raise BadText(
                f"unknown %{piece[:1]} in the format; there are "
                f"{' '.join('%' + each for each in _FIELDS)}, value and line"
            )
        else:
            parts.append(_WRITERS[piece[0]])
        parts.append(read_escaped(piece[1:]).encode("utf-8", "surrogateescape"))
        position += 1
    return parts


def _write_headers(record: ConsumedRecord, null: bytes) -> bytes:
    return b",".join(
        name.encode() + b"=" + (null if value is None else value) for name, value in record.headers
    )


_WRITERS: Final[dict[str, Callable[[ConsumedRecord, bytes], bytes]]] = {
    "t": lambda record, null: record.topic.encode(),
    "p": lambda record, null: b"%d" % record.partition,
    "o": lambda record, null: b"%d" % record.offset,
    "k": lambda record, null: null if record.key is None else record.key,
    "s": lambda record, null: null if record.value is None else record.value,
    "h": _write_headers,
    "T": lambda record, null: b"%d" % record.timestamp_ms,
    "I": lambda record, null: text.time(record.timestamp_ms).encode(),
    "S": lambda record, null: b"%d" % (-1 if record.value is None else len(record.value)),
}


def harmless(content: bytes) -> bytes:
    """`content` without what would steer a terminal; new lines and tabs stay."""
    return _CONTROLS.sub(b".", content)
