"""Settings as people read and edit them, rates from offsets, what forms take: pure parts."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from broker.client.blocking import ConfigEntry, TopicPartition
from hermes_console.operations.configs import (
    NOT_SHOWN,
    Kind,
    audited_values,
    find_changes,
    read_settings,
    retention_in_words,
    settings_etag,
    value_in_words,
)
from hermes_console.operations.topics import name_problem
from hermes_console.operations.topics_rates import count_points, rates_between
from hermes_console.pages.topics.forms import read_cut, read_offsets_text, write_offsets
from hermes_console.settingfields import fields_of, wanted_values

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def entry(name: str, value: str | None, source: int, kind: int = 5, *more: object) -> ConfigEntry:
    synonyms = ((name, value, source), *more) if source == 1 else ((name, value, source),)
    return ConfigEntry(name, value, source, False, value is None, kind, "doc", synonyms)  # type: ignore[arg-type]


def settings(*entries: ConfigEntry) -> list:  # type: ignore[type-arg]
    return read_settings(entries)


def test_override_knows_what_holds_without_it() -> None:
    (one,) = settings(
        entry("retention.ms", "1000", 1, 5, ("log.retention.ms", "2000", 4), ("x", "3000", 5))
    )
    assert (one.is_set_here, one.inherited, one.inherited_source.key) == (True, "2000", "static")
    (other,) = settings(entry("retention.ms", "2000", 4))
    assert (other.is_set_here, other.inherited) == (False, "2000")


def test_common_settings_come_first_and_kinds_fit() -> None:
    found = settings(
        entry("zzz", "true", 5, 1), entry("cleanup.policy", "delete", 5, 7), entry("aaa", "x", 5, 2)
    )
    assert [one.name for one in found] == ["cleanup.policy", "aaa", "zzz"]
    assert [one.kind for one in found] == [Kind.CHOICE, Kind.TEXT, Kind.BOOLEAN]


def test_value_outside_of_the_known_choices_stays_a_choice() -> None:
    (one,) = settings(entry("cleanup.policy", "something-new", 5, 7))
    assert one.choices[0] == "something-new"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "--1", ""),
        ("add.partitions.to.txn.retry.backoff.ms", "20", ""),
        ("retention.ms", "٣", ""),
        ("retention.ms", "-1", "no limit"),
        ("message.timestamp.before.max.ms", str(2**63 - 1), "no limit"),
        ("segment.bytes", "1073741824", "1.0 GiB"),
        ("min.insync.replicas", "1", ""),
        ("retention.ms", None, ""),
        ("retention.ms", "soon", ""),
    ],
)
def test_numbers_are_said_in_words(name: str, value: str | None, words: str) -> None:
    assert value_in_words(name, value) == words


@pytest.mark.parametrize(
    ("ms", "size", "policy", "words"),
    [
        ("86400000", "-1", "delete", "1 d"),
        ("-1", "1048576", "delete", "1.0 MiB a partition"),
        ("-1", "-1", "delete", "for ever"),
        ("86400000", "-1", "compact", "newest of each key"),
        ("86400000", "-1", "compact,delete", "newest of each key, 1 d"),
        (None, None, "", "unknown"),
    ],
)
def test_retention_is_said_in_words(
    ms: str | None, size: str | None, policy: str, words: str
) -> None:
    assert retention_in_words(ms, size, policy) == words


def test_documentation_in_html_becomes_text() -> None:
    told = "The <i>minimum</i> of <code>a &lt; b</code>.<p>Use &quot;all&quot;, 1 < 2 > 0.</p>"
    row = ConfigEntry("x", "1", 5, False, False, 5, told, ())
    (one,) = settings(row)
    assert one.documentation == 'The minimum of a < b . Use "all", 1 < 2 > 0.'


def test_only_what_differs_is_a_change() -> None:
    found = settings(entry("a", "1", 5), entry("b", "2", 1, 5, ("b", "9", 5)), entry("c", "3", 5))
    changes = find_changes(found, {"a": "1", "b": None, "c": None, "d": "4"})
    assert [(one.name, one.before, one.after) for one in changes] == [
        ("b", "2", None),
        ("d", None, "4"),
    ]
    assert changes[0].inherited == "9"


def test_etag_changes_with_overrides_and_with_the_topic() -> None:
    plain, other = settings(entry("a", "1", 5)), settings(entry("a", "1", 1))
    tags = {
        settings_etag(b"1", plain),
        settings_etag(b"2", plain),
        settings_etag(b"1", other),
    }
    assert len(tags) == 3
    assert settings_etag(b"1", plain) == settings_etag(b"1", settings(entry("a", "2", 5)))


def test_audit_keeps_that_a_secret_was_set_but_not_the_secret() -> None:
    known = settings(entry("ssl.key.password", None, 4, 9), entry("retention.ms", "1", 1))
    wanted = {"ssl.key.password": "hunter2", "retention.ms": "2", "never.heard.of": "hunter3"}
    before, after = audited_values(known, find_changes(known, wanted))
    assert before == {"ssl.key.password": None, "retention.ms": "1", "never.heard.of": None}
    assert after == {
        "ssl.key.password": NOT_SHOWN,
        "retention.ms": "2",
        "never.heard.of": NOT_SHOWN,
    }
    _, gone = audited_values(known, find_changes(known, {"retention.ms": None}))
    assert gone == {"retention.ms": None}


def test_fields_that_were_left_alone_are_not_wanted() -> None:
    found = settings(entry("a", "1", 5), entry("b", "2", 1, 5, ("b", "9", 5)), entry("s", None, 5))
    posted = {"value.a": " 1 ", "value.b": "5", "value.s": "", "value.unknown": "7"}
    assert wanted_values(found, posted) == {"b": "5"}
    assert wanted_values(found, {"reset.b": "on", "value.b": "5"}) == {"b": None}
    assert wanted_values(found, {"reset.a": "on"}) == {}, "nothing is set there"
    assert wanted_values(found, {"value.a": "", "value.b": "2"}, is_new=True) == {"b": "2"}


def test_refusal_stands_at_the_setting_that_it_names_alone() -> None:
    found = settings(entry("segment.ms", "1", 5), entry("segment.ms.more", "1", 5))
    for problem in ("Bad segment.ms.", "segment.ms: bad", "x (segment.ms)"):
        named = [one.setting.name for one in fields_of(found, {}, problem=problem) if one.problem]
        assert named == ["segment.ms"], problem
    for problem in ("bad segment.ms.more", "delete.segment.ms", ""):
        named = [one.setting.name for one in fields_of(found, {}, problem=problem) if one.problem]
        assert "segment.ms" not in named, problem


def test_rate_is_unknown_where_records_were_deleted() -> None:
    points = rates_between(
        [0, 10, 20],
        [{A: 5}, {A: 25}, {A: -1}],
        starts={A: 5},
        ends={A: 45},
    )
    assert [one.per_s for one in points] == [None, 2.0]
    from_zero = rates_between([0, 10, 20], [{A: 0}, {A: 20}, {A: -1}], starts={A: 0}, ends={A: 20})
    assert [one.per_s for one in from_zero] == [2.0, 0.0]


def test_rate_sums_partitions_and_needs_all_of_them() -> None:
    bounds = [{A: 0, B: 0}, {A: 10, B: -1}]
    both = rates_between([0, 10], bounds, starts={A: 0, B: 0}, ends={A: 99, B: 30})
    assert both[0].per_s == 4.0
    missing = rates_between([0, 10], [{A: 0}, {A: 10}], starts={A: 0, B: 0}, ends={A: 9, B: 9})
    assert missing[0].per_s is None


def test_chart_of_a_wide_topic_has_fewer_points_and_of_a_huge_one_none() -> None:
    assert count_points(1) == 30
    assert 6 <= count_points(400) < 30
    assert count_points(10_000) == 0


def test_offsets_survive_the_form_and_nonsense_is_refused() -> None:
    offsets = {0: 2**62, 7: 0}
    assert read_offsets_text(write_offsets(offsets)) == offsets
    for text in ("0", "0:", ":1", "0:-1", "a:1", "0:1:2", "٣:1"):
        with pytest.raises(ValueError):
            read_offsets_text(text)


def test_cut_at_1970_of_a_zone_is_never_one_of_the_special_times() -> None:
    form = read_cut({"mode": "time", "time": "1970-01-01T00:59:59.999"})
    assert not form.problems
    assert form.at_ms(ZoneInfo("Europe/Berlin")) == 0


def test_cut_form_says_what_is_missing() -> None:
    assert read_cut({"mode": "nope"}).mode == "all"
    for time in ("", "yesterday", "2026-13-01T00:00", "9999-12-31T00:00"):
        assert "time" in read_cut({"mode": "time", "time": time}).problems, time
    assert not read_cut({"mode": "time", "time": "2026-01-31T18:00"}).problems
    assert set(read_cut({"mode": "offset"}).problems) == {"partition", "offset"}


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "a b", "ä", "a\n"])
def test_names_that_no_topic_can_have(name: str) -> None:
    assert name_problem(name)


def test_names_that_a_topic_can_have() -> None:
    for name in ("a", "a.b", "A_b-1", "x" * 249, "..."):
        assert name_problem(name) == ""


@pytest.mark.parametrize(
    ("posted", "told"),
    [
        ({"mode": "all", "time": "2026-01-31T18:00"}, "all records, but filled in time"),
        ({"mode": "time", "time": "2026-01-31T18:00", "offset": "5"}, "filled in offset"),
        (
            {"mode": "offset", "partition": "0", "offset": "5", "time": "2026-01-31T18:00"},
            "filled in time",
        ),
    ],
)
def test_cut_that_contradicts_itself_is_refused(posted: dict[str, str], told: str) -> None:
    assert told in read_cut(posted).problems["mode"]
