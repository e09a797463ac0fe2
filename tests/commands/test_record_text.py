"""Records from text and JSON, and back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.fetcher import ConsumedRecord
from broker.commands.record_text import (
    RECORD_BYTES_MAX,
    harmless,
    parse_json,
    parse_text,
    record_json,
    split,
    writer,
)
from broker.commands.text import BadText

maybe_bytes = st.none() | st.binary(max_size=40)
header_lists = st.lists(st.tuples(st.text(st.characters(codec="utf-8")), maybe_bytes), max_size=3)


async def pieces(chunks: Sequence[bytes], delimiter: bytes | None) -> list[bytes]:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [piece async for piece in split(stream(), delimiter)]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_delimiters_are_found_across_chunks(size: int) -> None:
    content = b"one--two----three-"
    chunks = [content[start : start + size] for start in range(0, len(content), size)]
    assert await pieces(chunks, b"--") == [b"one", b"two", b"", b"three-"]
    assert await pieces([b"a\n", b"b\n"], b"\n") == [b"a", b"b"]
    assert await pieces([], b"\n") == []
    assert await pieces([], None) == [b""]
    assert await pieces(chunks, None) == [content]


async def test_a_record_without_an_end_is_refused() -> None:
    chunk = bytes(16 * 1024 * 1024)
    with pytest.raises(BadText, match="is the delimiter right"):
        await pieces([chunk] * (RECORD_BYTES_MAX // len(chunk) + 1), b"\n")


@given(
    key=maybe_bytes,
    value=maybe_bytes,
    headers=header_lists,
    timestamp_ms=st.integers(0, 2**63 - 1),
)
def test_json_keeps_every_byte(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp_ms: int,
) -> None:
    record = ConsumedRecord("t", 3, 2**62, timestamp_ms, key, value, tuple(headers))
    line = json.dumps(record_json(record))
    parsed = parse_json(line.encode(), "line 1", key=b"other")
    assert parsed == (key, value, tuple(headers), timestamp_ms)
    assert json.loads(line)["offset"] == str(2**62)


def test_markers_and_separators() -> None:
    def parsed(piece: bytes, marker: bytes | None = None) -> tuple[bytes | None, bytes | None]:
        return parse_text(piece, "line 1", key=None, separator=b":", marker=marker)[:2]

    assert parsed(b"k:v:w") == (b"k", b"v:w")
    assert parsed(b":") == (b"", b"")
    assert parsed(b"k:", marker=b"") == (b"k", None)
    assert parsed(b"NULL:NULL", marker=b"NULL") == (None, None)
    assert parse_text(b"v", "line 1", key=None, separator=None, marker=None)[:2] == (None, b"v")


def test_formats_keep_bytes() -> None:
    record = ConsumedRecord("t", 1, 2, 0, None, b"\xff\n", (("h", None), ("i", b"\xfe")))
    assert writer("value", b"NULL")(record) == b"\xff\n\n"
    assert writer("%k|%s|%h%%", b"~")(record) == b"~|\xff\n|h=~,i=\xfe%"
    assert writer("100%%%o", b"~")(record) == b"100%2"
    for form in ("%", "%z", "a%"):
        with pytest.raises(BadText):
            writer(form, b"")


def test_harmless_keeps_text() -> None:
    assert harmless("ü\t\n€".encode()) == "ü\t\n€".encode()
    assert harmless(b"\x1b[2J\x00\x7f\xc2\x80") == b".[2J..."


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"value": "a", "kye": "k"}', "unknown field 'kye'"),
        ('{"value": "a", "timestamp": "1"}', "unknown field 'timestamp'"),
        ('{"value": "\\ud800"}', "surrogate"),
        ('{"value": "a", "key": "\\udfff"}', "surrogate"),
        ('{"value": "a", "headers": [{"name": "\\ud800", "value": "b"}]}', "surrogate"),
        (f'{{"value": "a", "timestamp_ms": "{"9" * 5_000}"}}', "not milliseconds"),
    ],
)
def test_json_that_would_lose_or_bend_something_is_refused(line: str, reason: str) -> None:
    with pytest.raises(BadText, match=f"line 7.*{reason}"):
        parse_json(line.encode(), "line 7", key=None)
