"""The table of commands is complete, its examples work, and text becomes values or a refusal."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
from pathlib import Path

import pytest

from broker.cli import COMMANDS
from broker.commands.parsing import command_for, parse, parser_of
from broker.commands.table import Command, common_arguments
from broker.commands.text import (
    BadText,
    clean,
    layout,
    nearest,
    ranges,
    read_span,
    read_time,
    sentences,
    size,
    time,
)
from broker.commands.tree import AREAS
from broker.commands.values import (
    Start,
    TopicSelection,
    read_escaped,
    read_header,
    read_partitions,
    read_selection,
    read_setting,
    read_start,
)

ROOT = Path(__file__).parents[2]
ALL = [command for area in AREAS for command in area.commands]
NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.name)
def test_a_row_is_complete(command: Command) -> None:
    module, _, name = command.run.partition(":")
    function = getattr(importlib.import_module(f"broker.commands.{module}"), name)
    assert inspect.iscoroutinefunction(function)
    assert command.examples
    help_text = parser_of(command).format_help()
    for argument in (*command.arguments, *common_arguments(command)):
        assert argument.help
        choices = argument.options.get("choices", ("",))
        shown = argument.options.get("metavar", f"{{{','.join(map(str, choices))}}}")
        assert argument.flags[-1] in help_text or str(shown) in help_text
    assert all(example.line in help_text for example in command.examples)
    assert command.words[0] in [row.name for row in COMMANDS]


def lines_of_documents() -> list[str]:
    """What a reader copies from a block of a document: each call of a command on a cluster."""
    areas = {area.name for area in AREAS}
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = [path.read_text(encoding="utf-8") for path in documents]
    blocks = [one for text in texts for one in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)]
    lines = [line for one in blocks for line in re.sub(r"\\\n\s*", " ", one).splitlines()]
    calls = [re.search(r"(?:^|[|$] )(?:\./)?(hermes (\w+).*)", line) for line in lines]
    return [call[1].partition(" #")[0] for call in calls if call is not None and call[2] in areas]


@pytest.mark.parametrize(
    "line", [*(e.line for command in ALL for e in command.examples), *lines_of_documents()]
)
def test_examples_can_be_typed(line: str) -> None:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    words = list(lexer)
    stops = [index for index, word in enumerate(words) if word in ("|", "<", ">", "||")]
    first, *rest = words[1 : stops[0] if stops else None]
    if first == "completion":
        return
    area = next(area for area in AREAS if area.name == first)
    command, arguments = command_for(area, rest)
    parse(command, arguments)


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("start", Start("start")),
        ("latest", Start("end")),
        ("42", Start("offset", 42)),
        ("-5", Start("last", 5)),
        ("@-1h", Start("time", time_text="-1h")),
    ],
)
def test_places(word: str, wanted: Start) -> None:
    assert read_start(word) == wanted


@pytest.mark.parametrize("word", ["", "soon", "@soon", "@", "1.5", "--5", "9" * 20, "٣"])
def test_no_places(word: str) -> None:
    with pytest.raises(BadText):
        read_start(word)


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("1772357400000", 1_772_357_400_000),
        ("2026-03-01", 1_772_323_200_000),
        ("2026-03-01T09:30", 1_772_357_400_000),
        ("2026-03-01T09:30:00.250Z", 1_772_357_400_250),
        ("2026-03-01T09:30:00+02:00", 1_772_350_200_000),
        ("-15m", NOW_MS - 900_000),
        ("-1h30m", NOW_MS - 5_400_000),
        ("-250ms", NOW_MS - 250),
        ("-99999999999d", 0),
        ("0001-01-01", 0),
    ],
)
def test_times(word: str, wanted: int) -> None:
    assert read_time(word, NOW_MS) == wanted


@pytest.mark.parametrize("word", ["1969-12-31T23:59:59.999Z", "1969-01-01", "-99999d"])
def test_a_time_before_1970_is_none_of_the_special_ones(word: str) -> None:
    assert Start("time", time_text=word).time_ms(NOW_MS) == 0


@pytest.mark.parametrize(
    "word", ["", "-", "-1x", "yesterday", "2026-13-01", "1h", "-1h 5m", "9" * 19]
)
def test_no_times(word: str) -> None:
    with pytest.raises(BadText):
        read_time(word, NOW_MS)


def test_times_are_shown_in_utc() -> None:
    assert time(1_772_357_400_250) == "2026-03-01T09:30:00.250Z"
    assert time(-1) == "-"
    assert time(2**63 - 1) == "9223372036854775807 ms"
    assert read_time(time(1_234), NOW_MS) == 1_234


def test_selections_and_partitions() -> None:
    assert read_selection("orders") == TopicSelection("orders", None)
    assert read_selection("orders:2-4,0") == TopicSelection("orders", (0, 2, 3, 4))
    for word in ("", ":1", "t:", "t:x", "t:3-1", "t:-1", "t:0-99999"):
        with pytest.raises(BadText):
            read_selection(word)
    with pytest.raises(BadText):
        read_partitions("")
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_settings_headers_and_escapes() -> None:
    assert read_setting("a=b=c") == ("a", "b=c")
    assert read_setting("a=") == ("a", "")
    assert read_header("n=") == ("n", b"")
    assert read_header("n") == ("n", None)
    assert read_header("n=\udcff") == (
        "n",
        b"\xff",
    )  # a byte that is not UTF-8, as Python passes it
    assert read_escaped("a\\t\\n\\0\\\\\\x41") == "a\t\n\0\\A"
    for read, word in ((read_setting, "a"), (read_header, "=v"), (read_escaped, "\\q")):
        with pytest.raises(BadText):
            read(word)
    for word in ("", "h", "1h2", "1 h"):
        with pytest.raises(BadText):
            read_span(word)


def test_tables_are_aligned_and_harmless() -> None:
    rows = [("a", 1, None), ("long\x1b[31m\nname", 1234, "x")]
    assert layout(("NAME", "COUNT", "NOTE"), rows) == [
        "NAME                COUNT  NOTE",
        "a                       1  -",
        "long\\x1b[31m\\nname   1234  x",
    ]
    assert layout(("NAME", "N"), []) == ["NAME  N"]
    assert clean("tab\t\u202e") == "tab\\t\\u202e"


def test_small_words() -> None:
    assert [size(n) for n in (-1, 0, 1023, 1024, 5 * 1024**3, 2**62)] == [
        *("-", "0 B", "1023 B", "1.0 KiB", "5.0 GiB", "4096.0 PiB")
    ]
    assert sentences("it failed", "Try again") == "it failed. Try again"
    assert sentences("really?", "") == "really?"
    assert nearest("ordres", ["orders", "prices"]) == " Did you mean 'orders'?"
    assert nearest("zzz", ["orders"]) == ""
