"""Every rule of the checker has a history that breaks it, and one clean history breaks none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.simulator.checker import RULES, check
from broker.simulator.history import FAIL, INFO, OK, History

T = {"topic": "t", "partition": 0}


class Story:
    """A history in few words."""

    def __init__(self) -> None:
        self.history = History()

    def send(
        self,
        value: str,
        *,
        outcome: str | None = OK,
        offset: int | None = None,
        producer: str = "p",
        is_idempotent: bool = True,
        sequence: int = 0,
        **place: Any,
    ) -> Story:
        identity = self.history.invoke(
            0.0,
            "send",
            producer=producer,
            is_idempotent=is_idempotent,
            value=value,
            sequence=sequence,
            **{**T, **place},
        )
        if outcome is not None:
            self.history.end(0.0, identity, outcome, "send", offset=offset)
        return self

    def poll(
        self, position: int, *records: tuple[int, str], reader: str = "r@0", watermark: Any = None
    ) -> Story:
        self.history.record(
            0.0,
            "poll",
            reader=reader,
            position=position,
            records=list(records),
            high_watermark=watermark,
            **T,
        )
        return self

    def final(self, start: int, end: int, *records: tuple[int, str]) -> Story:
        self.history.record(0.0, "final", start=start, end=end, records=list(records), **T)
        return self

    def commit(self, offset: int, outcome: str | None = OK) -> Story:
        identity = self.history.invoke(0.0, "commit", group="g", offset=offset, **T)
        if outcome is not None:
            self.history.end(0.0, identity, outcome, "commit")
        return self

    def trim(self, offset: int, *, start: int | None = None, outcome: str = OK) -> Story:
        identity = self.history.invoke(0.0, "trim", offset=offset, **T)
        ok = {"start": start, **T} if outcome == OK else {}
        self.history.end(0.0, identity, outcome, "trim", **ok)
        return self

    def committed(self, offset: int) -> Story:
        identity = self.history.invoke(0.0, "committed", group="g", **T)
        self.history.end(0.0, identity, OK, "committed", offset=offset)
        return self

    def put(self, key: str, value: str | None, offset: int) -> Story:
        identity = self.history.invoke(0.0, "put", key=key, value=value, **T)
        self.history.end(0.0, identity, OK, "put", offset=offset)
        return self

    def follow(
        self, *entries: tuple[int, int, str, str | None], end: int, time: float, high: int
    ) -> Story:
        found = {"entries": list(entries), "next_position": end, "high_watermark": high}
        self.history.record(time, "follow", reader="f", position=0, asked_s=time, **found, **T)
        return self

    def clock(self, time: float) -> Story:
        self.history.record(time, "clock", skew_ms=1)
        return self

    def keys(
        self,
        *entries: tuple[int, int, str, str | None],
        lookups: Sequence[tuple[int, int]] = (),
    ) -> Story:
        self.history.record(0.0, "keys", entries=list(entries), lookups=list(lookups), **T)
        return self

    def broken(self) -> set[str]:
        return {finding.rule for finding in check(self.history.events)}


BROKEN = {
    "one value per offset": Story()
    .send("a", outcome=INFO)
    .send("b", outcome=INFO)
    .poll(0, (0, "a"), reader="r@0")
    .poll(0, (0, "b"), reader="s@0"),
    "acknowledged is kept": Story().send("a", offset=0).final(0, 0),
    "seen is kept": Story().send("a", outcome=INFO).poll(0, (0, "a")).final(0, 0),
    "nothing phantom": Story().poll(0, (0, "never sent")),
    "order of a producer": Story()
    .send("a", sequence=1, outcome=INFO)
    .send("b", sequence=2, outcome=INFO)
    .final(0, 2, (0, "b"), (1, "a")),
    "no duplicate of an idempotent producer": Story()
    .send("a", offset=0)
    .final(0, 2, (0, "a"), (1, "a")),
    "no skip between polls": Story()
    .send("a", outcome=INFO)
    .send("c", outcome=INFO)
    .poll(0, (0, "a"))
    .poll(1, (2, "c")),
    "final log is whole": Story().send("a", offset=0).final(0, 2, (0, "a")),
    "committed offset never moves back": Story().commit(5).commit(9).committed(5),
    "watermark never moves back": Story().poll(0, watermark=5).poll(0, watermark=4),
    "start moves where asked": Story()
    .send("a", offset=0, sequence=0)
    .trim(1, start=1)
    .final(0, 1, (0, "a")),
    "newest of every key is kept": Story()
    .put("k", "old", 0)
    .put("k", "new", 1)
    .keys((0, 0, "k", "old")),
    "deletions are seen": Story()
    .follow((0, 0, "k", "v"), end=1, time=0.0, high=1)
    .follow((2, 0, "x", "y"), end=3, time=1.0, high=3)
    .keys((2, 0, "x", "y")),
    "offsets by time are exact": Story().keys((0, 5, "k", "v"), (1, 7, "l", "v"), lookups=[(6, 0)]),
}


OF_DELIVERY_WINDOWS = {
    "visible end never moves back",
    "not before its time",
    "not after its end",
    "only what is expired is passed",
}
"""Their histories are in test_delivery_window."""


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert set(BROKEN) | OF_DELIVERY_WINDOWS == set(RULES)


@pytest.mark.parametrize("rule", sorted(BROKEN))
def test_broken_rule_is_found_and_no_other(rule: str) -> None:
    assert BROKEN[rule].broken() == {rule}


def two_records() -> Story:
    return Story().send("a", offset=0, sequence=0).send("b", offset=1, sequence=1)


def test_deleted_records_may_be_gone_and_no_others() -> None:
    rule = "start moves where asked"
    assert two_records().trim(1, start=1).final(1, 2, (1, "b")).broken() == set()
    assert two_records().trim(-1, start=2).final(2, 2).broken() == set()
    assert two_records().trim(1, start=1).final(2, 2).broken() == {rule}, "more than asked for"
    assert two_records().trim(2, start=1).final(1, 2, (1, "b")).broken() == {rule}
    back = two_records().trim(1, start=1).trim(0, start=0).final(1, 2, (1, "b"))
    assert back.broken() == {rule}
    lost = two_records().trim(1, start=1).final(1, 1)
    assert lost.broken() == {"acknowledged is kept"}


@pytest.mark.parametrize("outcome", [INFO, FAIL])
def test_a_deletion_whose_fate_is_open_binds_nobody(outcome: str) -> None:
    asked = two_records().trim(1, outcome=outcome)
    assert asked.final(0, 2, (0, "a"), (1, "b")).broken() == set()
    if outcome == INFO:
        assert two_records().trim(1, outcome=INFO).final(1, 2, (1, "b")).broken() == set()


def test_clean_history_has_no_findings() -> None:
    story = (
        Story()
        .send("a", offset=0, sequence=0)
        .send("b", offset=1, sequence=1)
        .send("lost", outcome=INFO, sequence=2)
        .send("late", outcome=None, sequence=3)
        .send("twice", is_idempotent=False, producer="q", offset=3)
        .poll(0, (0, "a"), watermark=1)
        .poll(1, (1, "b"), (2, "late"), watermark=3)
        .commit(2)
        .committed(2)
        .final(0, 5, (0, "a"), (1, "b"), (2, "late"), (3, "twice"), (4, "twice"))
    )
    assert story.broken() == set()


def test_failed_send_that_is_read_is_a_phantom() -> None:
    assert Story().send("a", outcome=FAIL).poll(0, (0, "a")).broken() == {"nothing phantom"}


def test_value_of_another_incarnation_of_the_topic_is_a_phantom() -> None:
    story = Story().send("a", topic="t/1", outcome=INFO)
    story.history.record(0.0, "final", topic="t/2", partition=0, start=0, end=1, records=[(0, "a")])
    assert story.broken() == {"nothing phantom"}


def test_acknowledged_at_one_offset_and_read_at_another_is_found() -> None:
    story = Story().send("a", offset=1).send("b", outcome=INFO, sequence=1)
    assert "acknowledged is kept" in story.final(0, 2, (0, "a"), (1, "b")).broken()


def test_acknowledged_without_an_offset_must_be_somewhere() -> None:
    assert Story().send("a", offset=None).final(0, 0).broken() == {"acknowledged is kept"}
    assert Story().send("a", offset=None).final(0, 1, (0, "a")).broken() == set()


def test_acknowledgement_and_reader_must_agree() -> None:
    story = Story().send("a", offset=0).send("b", outcome=INFO, sequence=1).poll(0, (0, "b"))
    assert story.broken() == {"one value per offset"}


def test_record_above_the_watermark_is_found() -> None:
    story = Story().send("a", outcome=INFO).poll(0, (0, "a"), watermark=0)
    assert story.broken() == {"watermark never moves back"}


def test_commit_of_unknown_fate_may_be_read_or_not() -> None:
    assert Story().commit(5).commit(9, outcome=INFO).committed(9).broken() == set()
    assert Story().commit(5).commit(9, outcome=INFO).committed(5).broken() == set()
    assert Story().commit(5, outcome=INFO).commit(9).committed(5).broken() == set()


def test_group_that_was_reset_may_commit_less() -> None:
    story = Story().commit(9)
    story.history.record(0.0, "reset", group="g", **T)
    assert story.commit(5).committed(5).broken() == set()
    assert story.committed(4).broken() == {"committed offset never moves back"}


def test_offset_that_nobody_committed_is_found() -> None:
    assert Story().commit(5).committed(7).broken() == {"committed offset never moves back"}


def test_acknowledged_commit_that_vanished_is_found() -> None:
    assert Story().commit(5).committed(-1).broken() == {"committed offset never moves back"}


def test_power_cut_takes_back_what_was_seen_but_brings_nothing_that_was_not_sent() -> None:
    def before() -> Story:
        story = Story().send("a", offset=0).poll(0, (0, "a"), watermark=1).commit(1)
        story.history.record(0.0, "power cut")
        return story

    lost = before().committed(-1).send("b", offset=0, producer="q").poll(0, (0, "b"), watermark=1)
    assert lost.final(0, 1, (0, "b")).broken() == set()
    assert before().final(0, 1, (0, "a")).committed(1).broken() == set()
    assert before().final(0, 1, (0, "x")).broken() == {"nothing phantom"}
    assert before().committed(7).broken() == {"committed offset never moves back"}


def test_power_cut_takes_nothing_of_a_durable_topic() -> None:
    def before(*durable: str) -> Story:
        story = Story()
        for topic in durable:
            story.history.record(0.0, "durable", topic=topic)
        story.send("a", offset=0).poll(0, (0, "a"), watermark=1).commit(1)
        story.history.record(0.0, "power cut")
        return story

    assert before("t").final(0, 1, (0, "a")).broken() == set()
    assert before("t").final(0, 0).broken() == {"acknowledged is kept", "seen is kept"}
    assert before("u").final(0, 0).broken() == set()
    rewritten = before("t").send("b", offset=0, producer="q").final(0, 1, (0, "b"))
    assert rewritten.broken() == {"one value per offset", "acknowledged is kept"}
    assert before("t").committed(-1).broken() == set()
    assert before("__consumer_offsets").committed(1).broken() == set()
    lost = before("__consumer_offsets").committed(-1)
    assert lost.broken() == {"committed offset never moves back"}


def test_a_watermark_that_was_shown_is_reached_in_the_end() -> None:
    assert Story().poll(0, watermark=2).final(0, 1, (0, "a")).broken() >= {"seen is kept"}
    assert Story().poll(0, watermark=2).trim(3, start=3).final(3, 3).broken() == set()


def test_question_asked_before_the_commit_may_be_answered_from_before() -> None:
    story = Story()
    moment = story.history.now()
    story.commit(5)
    story.history.recall(moment, 0.0, "committed", group="g", offset=-1, **T)
    assert story.broken() == set()


def test_an_older_value_of_a_deleted_key_must_not_come_back() -> None:
    deleted = Story().put("k", "v", 0).put("k", None, 1)
    assert deleted.keys().broken() == set()
    back = Story().put("k", "v", 0).put("k", None, 1).keys((0, 0, "k", "v"))
    assert back.broken() == {"newest of every key is kept"}


def test_who_was_behind_for_long_or_while_the_clock_jumped_may_miss_a_deletion() -> None:
    first = ((0, 0, "k", "v"),)
    last = ((2, 0, "x", "y"),)
    late = Story().follow(*first, end=1, time=0.0, high=1).follow(*last, end=3, time=9.0, high=3)
    assert late.keys(*last).broken() == set()
    jumped = Story().follow(*first, end=1, time=0.0, high=1).clock(0.5)
    assert jumped.follow(*last, end=3, time=1.0, high=3).keys(*last).broken() == set()
    idle = Story().follow(*first, end=1, time=0.0, high=1).follow(end=1, time=9.0, high=1)
    still = idle.follow(*last, end=3, time=10.0, high=3).keys(*last)
    assert still.broken() == {"deletions are seen"}, "nothing happened while it was away"


def test_offsets_by_time_none_is_minus_one() -> None:
    entries = ((0, 5, "k", "v"), (1, 7, "l", "v"))
    right = [(0, 0), (5, 0), (6, 1), (7, 1), (8, -1)]
    assert Story().keys(*entries, lookups=right).broken() == set()


def test_a_deletion_that_nobody_answered_may_have_happened() -> None:
    story = Story().put("k", "v", 0)
    story.history.invoke(0.0, "put", key="k", value=None, **T)
    assert story.keys().broken() == set()
    assert Story().put("k", "v", 0).keys().broken() == {"newest of every key is kept"}
