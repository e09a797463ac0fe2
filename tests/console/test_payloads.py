"""Contents of messages as people see them: nothing rounded, nothing dropped, nothing mistaken."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_console.payloads.entry import BadEntry, Encoding, entered
from hermes_console.payloads.losslessjson import DEPTH_MAX, NotJson, lexemes, pretty
from hermes_console.payloads.view import (
    HEX_BYTES_MAX,
    PREVIEW_BYTES_MAX,
    Form,
    decoded,
    line,
    portable,
    show,
    visible,
)

NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,5})?", fullmatch=True
)
SPACE = st.text(" \t\r\n", max_size=2)


@st.composite
def json_texts(draw: Any, depth: int = 3) -> str:
    """JSON as people really send it: any white space, huge numbers, duplicate keys, escapes."""
    kind = draw(st.sampled_from(["number", "string", "word", "list", "object"]))
    before, after = draw(SPACE), draw(SPACE)
    if kind == "number" or (depth == 0 and kind in {"list", "object"}):
        return f"{before}{draw(NUMBERS)}{after}"
    if kind == "string":
        return before + draw(_strings()) + after
    if kind == "word":
        return before + draw(st.sampled_from(["true", "false", "null"])) + after
    inner = json_texts(depth - 1)
    if kind == "list":
        return before + "[" + ",".join(draw(st.lists(inner, max_size=3))) + "]" + after
    members = draw(st.lists(st.tuples(_strings(), inner), max_size=3))
    members += members[:1]  # a key twice
    return before + "{" + ",".join(f"{key}:{value}" for key, value in members) + "}" + after


def _strings() -> Any:
    return st.one_of(
        st.text().map(json.dumps),
        st.text().map(lambda text: json.dumps(text, ensure_ascii=False)),
        st.just('"\\/\\u00e9"'),
    )


def exactly(text: str) -> Any:
    """What a strict parser sees, numbers as their text and objects with every member."""
    return json.loads(
        text,
        parse_int=lambda number: ("n", number),
        parse_float=lambda number: ("n", number),
        object_pairs_hook=lambda pairs: ("o", pairs),
    )


@given(json_texts())
def test_json_laid_out_is_the_same_json_to_the_last_digit(text: str) -> None:
    assert exactly(pretty(text)) == exactly(text)
    assert list(lexemes(pretty(text))) == list(lexemes(text))


@given(st.text(max_size=40))
def test_what_a_strict_parser_refuses_is_not_taken_for_json(text: str) -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text, parse_constant=refuse)
        is_json = True
    except (ValueError, RecursionError):
        is_json = False
    try:
        pretty(text)
    except NotJson:
        assert not is_json
    else:
        assert is_json


def test_ids_beyond_2_to_the_53_and_duplicate_keys_are_shown_as_sent() -> None:
    sent = b'{"id":9007199254740993,"id":9007199254740992,"price":1.10,"big":1E400}'
    shown = show(sent)
    assert shown.form is Form.JSON
    assert shown.text == (
        '{\n  "id": 9007199254740993,\n  "id": 9007199254740992,\n'
        '  "price": 1.10,\n  "big": 1E400\n}'
    )


@pytest.mark.parametrize(
    "text",
    ["", "NaN", "01", "[1,]", '{"a":1,}', "{} {}", '"\t"', "'a'", "[1 2]", "+1", ".5", "\ufeff{}"],
)
def test_near_json_is_shown_as_text(text: str) -> None:
    assert show(text.encode()).form is Form.TEXT


def test_deep_or_growing_json_costs_no_more_than_its_text() -> None:
    with pytest.raises(NotJson, match="levels deep"):
        pretty("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))
    grows = "[" * DEPTH_MAX + ",".join(["1"] * 30_000) + "]" * DEPTH_MAX
    with pytest.raises(NotJson, match="characters"):
        pretty(grows)
    assert show(grows.encode()).form is Form.TEXT


def test_null_is_not_empty() -> None:
    null, empty = show(None), show(b"")
    assert null.is_null
    assert not null.is_empty
    assert empty.is_empty
    assert not empty.is_null
    assert portable(None) is None
    assert portable(b"") == {
        "encoding": "utf-8",
        "content": "",
        "size": "0",
        "is_truncated": False,
    }


def test_invalid_utf_8_is_hex_in_pages_and_base64_in_json() -> None:
    content = b"\xff\xfe<script>"
    shown = show(content)
    assert shown.form is Form.HEX
    assert shown.text.startswith("00000000  ff fe 3c 73")
    asked = show(content, Form.TEXT)
    assert asked.form is Form.HEX
    assert "Not UTF-8" in asked.note
    found = portable(content)
    assert found is not None
    assert found["encoding"] == "base64"
    assert base64.b64decode(str(found["content"])) == content


@given(st.binary(max_size=200), st.none() | st.integers(0, 64))
def test_portable_contents_lose_nothing(content: bytes, limit: int | None) -> None:
    found = portable(content, limit)
    assert found is not None
    text = str(found["content"])
    back = text.encode() if found["encoding"] == "utf-8" else base64.b64decode(text)
    assert found["size"] == str(len(content))
    if found["is_truncated"]:
        assert limit is not None
        assert content[:limit].startswith(back)
        assert len(back) >= limit - 3, "at most a character that was cut in two is left out"
    else:
        assert back == content


@given(st.text(min_size=1, max_size=100), st.integers(0, 3))
def test_a_preview_never_ends_within_a_character(text: str, cut: int) -> None:
    content = text.encode()
    head = content[: max(0, len(content) - cut)]
    found = decoded(head, is_cut=True)
    assert found is not None
    assert text.startswith(found)


def test_large_values_are_previewed_and_say_so() -> None:
    shown = show(b"x" * (PREVIEW_BYTES_MAX + 1))
    assert shown.is_cut
    assert len(shown.text) == PREVIEW_BYTES_MAX
    assert shown.size == PREVIEW_BYTES_MAX + 1
    assert "64 KiB" in shown.note
    binary = show(b"\x00" * (HEX_BYTES_MAX + 1))
    assert binary.form is Form.HEX
    assert binary.is_cut
    assert "16 KiB" in binary.note


def test_what_nobody_would_see_is_shown_by_its_code() -> None:
    assert visible("abc\u202etxt.exe") == "abc⟨U+202E⟩txt.exe"
    assert show("a\u200bb".encode()).text == "a⟨U+200B⟩b"
    assert visible("line\n\ttab") == "line\n\ttab"


@given(st.binary(max_size=2_000))
def test_a_line_of_a_list_is_short_and_one_line(content: bytes) -> None:
    found = line(content)
    assert len(found) <= 2_000
    assert "\n" not in found
    assert "\r" not in found


@given(st.binary(max_size=100))
def test_bytes_come_back_from_hex_and_base64(content: bytes) -> None:
    assert entered(content.hex(" "), Encoding.HEX) == content
    assert entered(base64.b64encode(content).decode(), Encoding.BASE64) == content


@given(json_texts())
def test_entered_json_is_kept_byte_for_byte(text: str) -> None:
    assert entered(text, Encoding.JSON) == text.encode()


@pytest.mark.parametrize(
    ("text", "encoding", "says"),
    [
        ("{a}", Encoding.JSON, "Not JSON: expected a key"),
        ("4", Encoding.HEX, "pairs"),
        ("zz", Encoding.HEX, "Not hex"),
        ("a", Encoding.BASE64, "Not base64"),
        ("x", Encoding.NULL, "Null has no content"),
    ],
)
def test_bad_entries_say_what_to_correct(text: str, encoding: Encoding, says: str) -> None:
    with pytest.raises(BadEntry, match=says):
        entered(text, encoding)


def test_null_and_empty_are_entered_differently() -> None:
    assert entered("", Encoding.NULL) is None
    assert entered("", Encoding.TEXT) == b""
