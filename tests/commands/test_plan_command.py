"""`hermes plan` as a person types it: no broker is needed, and nonsense is told in a line."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction

import pytest

from broker.commands.main import main
from broker.commands.plan import decimal
from broker.commands.quantities import (
    read_bandwidth,
    read_factor,
    read_rate,
    read_share,
    read_size,
    read_span_s,
    show_clock,
    show_count,
    show_rate,
    show_size,
    show_span,
)
from broker.commands.text import BadText

NOWHERE = "127.0.0.1:1"


def plan(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """(exit code, standard output, standard error); a cluster could not be reached."""
    monkeypatch.setenv("HERMES_BOOTSTRAP", NOWHERE)
    code = main("plan", shlex.split(line))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


SUMS = {
    "backlog --rate 1000/s --for 60s --capacity 400/s --then 100/s --size 2KB": (
        *("36,000 messages", "72.0 MB", "90 s", "120 s", "180 s"),
    ),
    "backlog --rate 1000/s --for 1m --capacity 400/s --then 500/s": ("never", "360,000 more wait"),
    "backlog --rate 10/s --for 1m --capacity 400/s": ("0 messages", "0 s"),
    "partitions --rate 2000/s --worker 50/s --size 2KB --partitions 32": (
        *("40 workers", "1 partition", "64 partitions", "1,600/s", "400/s"),
    ),
    "partitions --rate 2000 --worker 50 --partitions 64 --downstream 1500/s": ("1,500/s", "500/s"),
    "storage --rate 11574/s --size 1KB --retention 7d --partitions 100": (
        *("7.0 TB", "21.0 TB", "116/s", "10.0 GB a day", "70.0 GB kept", "7 d of it"),
        *("3 copies, assumed (--replicas N)", "3 brokers, assumed: one for each copy"),
    ),
    "storage --rate 1/s --size 1KB --brokers 1": ("1 copy, assumed (--replicas N)", "1 broker"),
    "storage --rate 1000000000/d --size 1KB --compression 4 --replicas 1": (
        *("1.8 TB", "1,000,000,000 messages", "1 copy", "1 broker"),
    ),
}


@pytest.mark.parametrize("line", SUMS)
def test_a_sum_is_shown_with_its_units(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _err = plan(line, capsys, monkeypatch)
    assert code == 0
    for words in SUMS[line]:
        assert words in out, out


def test_json_has_numbers_as_text_and_null_for_never(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "backlog --rate 1000/s --for 60s --capacity 400/s --then 401/s --json"
    code, out, _err = plan(line, capsys, monkeypatch)
    assert code == 0
    (item,) = json.loads(out)["items"]
    assert item == {
        "peak_messages": "36000",
        "messages_after_rush": "36000",
        "peak_bytes": None,
        "longest_wait_s": "90",
        "drain_s": None,
        "empty_s": None,
        "growth_per_s": "1",
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("backlog --rate fast --for 60s --capacity 400/s", "not a rate: 'fast'; write for example"),
        ("backlog --rate=-5/s --for 60s --capacity 400/s", "not a rate"),
        ("backlog --rate 5/s --for 60 --capacity 400/s", "not a span of time: '60'"),
        ("backlog --rate 5/s --for 60s --capacity 0", "above 0"),
        ("backlog --rate 5/s --for 60s", "--capacity is missing"),
        ("backlog --rate 5/s", "--for, --capacity are missing"),
        ("partitions --rate 5/s --worker 1/s --partitions 0", "not a number from 1 on"),
        ("partitions --rate 5/s --worker 1/s --headroom lots", "not a share"),
        ("storage --rate 5/s --size 1XB", "not a size: '1XB'"),
        ("storage --rate 5/s --size 1KB --compression 0", "not a factor"),
        ("storage --rate 99999999999999999999/s --size 1KB", "more than 18 digits"),
        ("stroage", "Did you mean 'storage'?"),
        ("storage --bootstrap x:1 --rate 5 --size 1", "there is no option '--bootstrap'"),
    ],
)
def test_nonsense_is_wrong_usage_with_what_to_write(
    line: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, out, err = plan(line, capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert words in err


def test_what_was_said_is_not_told_as_an_assumption(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "storage --rate 5/s --size 1KB --replicas 2 --brokers 4"
    assert "assumed" not in plan(said, capsys, monkeypatch)[1]
    (item,) = json.loads(plan(f"{said} --json", capsys, monkeypatch)[1])["items"]
    assert (item["replicas"], item["brokers"]) == (2, 4)


def test_a_question_without_an_answer_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "storage --rate 5/s --size 1KB --replicas 3 --brokers 2"
    code, _out, err = plan(line, capsys, monkeypatch)
    assert code == 1
    assert "3 copies need 3 brokers" in err


def test_quantities_are_read_exactly() -> None:
    assert read_rate("1,000/s") == 1_000
    assert read_rate("50k/min") == Fraction(50_000, 60)
    assert read_rate("1000000000/d") == Fraction(10**9, 86_400)
    assert read_rate("0.1") == Fraction(1, 10)
    assert [read_size(word) for word in ("512", "1KB", "1kB", "1KiB", "1.5MB", "2GiB")] == [
        *(512, 1_000, 1_000, 1_024, 1_500_000, 2 << 30),
    ]
    assert read_bandwidth("10MB/s") == 10_000_000
    assert (read_share("25%"), read_share("0.25")) == (Fraction(1, 4), Fraction(1, 4))
    assert read_factor("2.5") == Fraction(5, 2)
    assert [read_span_s(word) for word in ("60s", "1h30m", "7d", "5min", "250ms")] == [
        *(60, 5_400, 604_800, 300, Fraction(1, 4)),
    ]
    for bad in ("", "x", "1KBps", "1 000", "1i", "1iB"):
        with pytest.raises(BadText):
            read_size(bad)


def test_quantities_are_shown_in_the_unit_that_a_reader_expects() -> None:
    assert [show_size(Fraction(n)) for n in (0, 999, 1_000, 999_999, 7 * 10**12)] == [
        *("0 B", "999 B", "1.0 KB", "1.0 MB", "7.0 TB"),
    ]
    assert [show_count(Fraction(n)) for n in (0, 36_000)] == ["0", "36,000"]
    assert show_count(Fraction(1, 3)) == "0.33"
    assert show_rate(Fraction(11_574, 100)) == "116/s"
    assert show_span(Fraction(90)) == "90 s"
    assert show_span(Fraction(5_400)) == "5,400 s (1 h 30 min)"
    assert [show_clock(Fraction(n)) for n in (0, 604_800)] == ["0 s", "7 d"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(3), "3"),
        (Fraction(100), "100"),
        (Fraction(5, 2), "2.5"),
        (Fraction(1, 3), "0.333333"),
        (Fraction(1, 10**9), "0"),
        (2 + Fraction(1, 10**9), "2"),
    ],
)
def test_numbers_for_programs_are_numbers(number: Fraction, text: str) -> None:
    assert decimal(number) == text
    assert json.loads(decimal(number)) == pytest.approx(float(number), abs=1e-6)
