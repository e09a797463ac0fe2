import pytest

from broker.bench.ratios import (
    Goal,
    Pair,
    Verdict,
    as_document,
    from_document,
    judge,
    ratio_text,
)
from broker.bench.sample import Sample

FASTER = Goal("produced", 1.0, is_floor=True)
CHEAPER = Goal("resident", 0.2, is_floor=False)


def pairs(*values: tuple[float, float], load: float = 50) -> list[Pair]:
    """Of (ours, peer), in both measures."""
    return [
        Pair(*(Sample({"produced": one, "resident": one}, load) for one in pair)) for pair in values
    ]


def test_the_ratio_of_a_row_is_the_median_of_its_pairs_with_their_spread() -> None:
    found = judge(pairs((10, 10), (30, 10), (20, 10), (90, 10), (5, 10)), FASTER)
    assert found is not None
    assert (found.ratio, found.lowest, found.highest) == (2.0, 0.5, 9.0)
    assert (found.ours, found.peer, found.counted) == (20, 10, 5)
    assert found.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("ours", "goal", "verdict", "why"),
    [
        (9.0, FASTER, Verdict.MISSED, "by 10 %"),
        (10.0, FASTER, Verdict.OK, ""),
        (2.0, CHEAPER, Verdict.OK, ""),
        (3.0, CHEAPER, Verdict.MISSED, "by 50 %"),
    ],
)
def test_a_target_is_met_or_missed_by_so_much(
    ours: float, goal: Goal, verdict: Verdict, why: str
) -> None:
    found = judge(pairs(*[(ours, 10.0)] * 5), goal)
    assert found is not None
    assert (found.verdict, found.why) == (verdict, why)


def test_a_pair_whose_load_was_the_limit_is_left_out_and_too_few_do_not_count() -> None:
    busy = pairs((90, 10), load=80)
    found = judge(pairs(*[(20, 10)] * 5) + busy, FASTER)
    assert found is not None
    assert (found.verdict, found.counted, found.highest) == (Verdict.OK, 5, 2.0)
    found = judge(pairs(*[(20, 10)] * 4) + busy, FASTER)
    assert found is not None
    assert found.verdict is Verdict.UNCOUNTED
    assert found.why == "4 pairs count, 5 are needed: the load used up to 80 % of its core"
    found = judge(pairs((20, 10)), FASTER)
    assert found is not None
    assert found.why == "1 pairs count, 5 are needed: 1 pairs were run"


def test_what_a_side_cannot_tell_has_no_verdict() -> None:
    blind = Pair(Sample({"produced": 1, "resident": 1}, 0), Sample({"produced": 1}, 0))
    assert judge([blind], CHEAPER) is None
    found = judge([blind], Goal("produced", None, is_floor=True))
    assert found is not None
    assert found.verdict is Verdict.NO_TARGET


def test_a_verdict_survives_being_written() -> None:
    found = judge(pairs(*[(9, 10)] * 5), FASTER)
    assert found is not None
    assert from_document(as_document(found)) == found


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (20.5, "20.50"),
        (0.1, "0.10"),
        (0.0996, "0.100"),
        (0.048, "0.048"),
        (0.00417, "0.0042"),
        (0.00003, "0.000030"),
        (0.0, "0.00"),
        (float("inf"), "inf"),
    ],
)
def test_a_small_ratio_is_told_with_two_significant_digits(number: float, text: str) -> None:
    assert ratio_text(number) == text
