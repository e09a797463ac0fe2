"""Templates, vendored files, icons and words."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta, timezone
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.template import Context, Template

from hermes_console import words
from hermes_console.icons import ICONS
from hermes_console.management.commands.check_templates import find_problems
from hermes_console.navigation import PAGES
from hermes_console.samples.read import LagPoint
from hermes_console.samples.snapshot import Verdict
from hermes_console.spans import chart_points, requested_span
from hermes_console.templatetags.hermes import VERDICT_WORDS, sparkline, verdict

STATIC = settings.BASE_DIR / "static"


def test_all_templates_compile_and_refer_to_what_exists() -> None:
    call_command("check_templates")


def test_check_finds_a_bad_reference_of_every_kind(
    tmp_path: Path, settings: pytest.FixtureRequest
) -> None:
    bad = {
        "url.html": "{% if x %}{% url 'nope' %}{% endif %}",
        "static.html": "{% load static %}{% static 'nope.css' %}",
        "include.html": "{% for a in b %}{% include 'nope.html' %}{% endfor %}",
        "extends.html": "{% extends 'nope.html' %}",
        "syntax.html": "{% if %}",
        "good.html": "{% load static %}{% url 'home' %}{% static 'console/mark.svg' %}",
    }
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
    templates = settings.TEMPLATES  # type: ignore[attr-defined]
    settings.TEMPLATES = [{**templates[0], "DIRS": [tmp_path]}]  # type: ignore[attr-defined]
    problems = list(find_problems(tmp_path))
    assert sorted(problem.partition(":")[0] for problem in problems) == sorted(
        set(bad) - {"good.html"}
    )
    with pytest.raises(CommandError, match=r"nope\.css"):
        call_command("check_templates")


def test_vendored_files_are_those_of_the_lock() -> None:
    lock = json.loads((STATIC / "vendor" / "lock.json").read_text())
    locked = {path: digest for package in lock for path, digest in package["files"].items()}
    for path, digest in locked.items():
        assert hashlib.sha256((STATIC / "vendor" / path).read_bytes()).hexdigest() == digest, path
    found = {
        file.relative_to(STATIC / "vendor").as_posix()
        for file in (STATIC / "vendor").rglob("*")
        if file.is_file() and file.parent != STATIC / "vendor" and "__pycache__" not in file.parts
    }
    assert found == set(locked)
    for package in lock:
        assert any(path.endswith("LICENSE") for path in package["files"]), package["package"]
        assert package["integrity"].startswith("sha512-")
        assert "http" not in json.dumps(package)


def test_every_page_and_verdict_has_its_icon() -> None:
    assert {page.icon for page in PAGES} <= set(ICONS)
    assert {one.value for one in Verdict} <= set(ICONS)
    assert set(VERDICT_WORDS) == set(Verdict)


def test_status_is_told_by_a_word_and_an_icon_too() -> None:
    for one in Verdict:
        assert VERDICT_WORDS[one] in verdict(one)
        assert "<svg" in verdict(one)


def test_tokens_of_both_ways_to_dark_are_the_same() -> None:
    css = (STATIC / "console" / "css" / "tokens.css").read_text()
    blocks = [part.split("}")[0] for part in css.split("{") if "color-scheme: dark;" in part]
    first, second = ([line.strip() for line in block.strip().splitlines()] for block in blocks)
    assert first == second


def test_script_and_style_load_nothing_from_elsewhere() -> None:
    for file in (STATIC / "console").rglob("*.*"):
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//cdn" not in text
        assert "http://" not in text
        assert "https://" not in text
        assert "eval(" not in text


def test_names_are_escaped_in_every_tag() -> None:
    html = Template("{% verdict v %}{% icon 'check' %}{{ n|number }}").render(
        Context({"v": Verdict.FINE, "n": None})
    )
    assert "unknown" in html


def test_use_of_a_disk_is_rounded_up_as_df_does() -> None:
    assert [words.used_percent(*each) for each in ((20, 72), (0, 5), (5, 0))] == [22, 0, 100]
    assert [words.used_percent(*each) for each in ((None, 1), (1, None), (0, 0))] == [None] * 3


def test_sparkline_says_in_words_what_it_shows() -> None:
    points = [LagPoint(0, 5, None), LagPoint(15, None, None), LagPoint(30, 1_200, None)]
    html = sparkline(points, 0, 60)
    assert 'aria-label="lag from 5 to 1,200, highest 1,200"' in html
    assert "no history yet" in sparkline(points[:2], 0, 60)


def test_sparkline_of_nothing_waiting_is_flat() -> None:
    assert "NaN" not in sparkline([LagPoint(0, 0, None), LagPoint(1, 0, None)], 0, 60)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0, "0 s"),
        (0.42, "0.4 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7_800, "2 h 10 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 400, "400 d"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (0, "0 B"), (1_023, "1,023 B"), (1_536, "1.5 KiB"), (2**70, "1,024 EiB")],
)
def test_sizes(value: float | None, text: str) -> None:
    assert words.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (0.01, "±0/s"), (12.34, "+12.3/s"), (-1_234.5, "−1,234/s")],
)
def test_signed_rates(value: float | None, text: str) -> None:
    assert words.signed_rate(value) == text


def test_counts_and_lists_and_clocks() -> None:
    assert words.count(1, "message") == "1 message"
    assert words.count(1_000, "message") == "1,000 messages"
    assert words.listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert words.clock(0) == "00:00:00"
    assert words.clock(0, timezone(timedelta(hours=2))) == "02:00:00"


def test_points_of_charts_keep_64_bits() -> None:
    assert chart_points([(1, 2**63 - 1, 0.12345), (2, None, 0.0)]) == [
        [1, "9223372036854775807", 0.123],
        [2, None, 0.0],
    ]


def test_unknown_span_is_the_shortest() -> None:
    assert requested_span({"span": "9y"}) == requested_span({})
    assert requested_span({"span": "7d"}).seconds == 604_800
