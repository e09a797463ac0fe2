"""Times as they are typed: one reader for all forms, addresses and the API."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from hermes_console.times import BadTime, read_moment, read_time

BERLIN = ZoneInfo("Europe/Berlin")
WANTED = int(datetime(2026, 3, 1, 13, 0, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T14:00",
        "2026-03-01 14:00:00.000",
        "2026-03-01 13:00:00Z",
        "2026-03-01T14:00:00+01:00",
        str(WANTED),
    ],
)
def test_time_without_a_zone_is_one_of_the_readers(text: str) -> None:
    assert read_time(text, BERLIN) == WANTED
    assert read_moment(text, BERLIN) == datetime(2026, 3, 1, 13, 0, tzinfo=UTC)


def test_day_is_its_first_moment_also_without_dashes() -> None:
    midnight = int(datetime(2026, 2, 28, 23, 0, tzinfo=UTC).timestamp() * 1000)
    assert read_time("2026-03-01", BERLIN) == read_time("20260301", BERLIN) == midnight


def test_1970_of_a_zone_is_never_one_of_kafkas_special_times() -> None:
    assert read_time("1970-01-01T00:59:59.999", BERLIN) == 0
    assert read_time("1", UTC) == 1


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "Enter a time"),
        ("yesterday", "Enter a time"),
        ("2026-13-01", "Enter a time"),
        ("-1", "Enter a time"),
        ("٣٣٣٣٣٣٣٣٣٣", "Enter a time"),
        ("99999999999999999999", "Enter a time"),
        ("1969-12-31T00:00:00Z", "before 1970"),
        ("9999-12-31T23:59", "too far away"),
        ("999999999999999", "too far away"),
    ],
)
def test_what_is_no_time_is_refused_with_what_to_type(text: str, word: str) -> None:
    with pytest.raises(BadTime, match=word):
        read_time(text, BERLIN)
