from broker.bench.measure import (
    Measure,
    Row,
    drift,
    has_failed,
    parse_buckets,
    parse_samples,
    percentile,
    quantile_between,
)

EXPOSITION = """\
# TYPE lag_seconds histogram
lag_seconds_bucket{le="0.001"} 90
lag_seconds_bucket{le="0.005"} 99
lag_seconds_bucket{le="+Inf"} 100
lag_seconds_count 100
other_seconds_bucket{le="0.001"} 7
"""


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 0.999) == 100
    assert percentile([7.0], 0.99) == 7


def test_a_quantile_between_two_scrapes_counts_only_what_came_between() -> None:
    after = parse_buckets(EXPOSITION, "lag_seconds")
    assert quantile_between({}, after, 0.99) == 0.005
    assert quantile_between({}, after, 0.9) == 0.001
    before = {0.001: 90.0, 0.005: 90.0, float("inf"): 90.0}
    assert quantile_between(before, after, 0.5) == 0.005
    assert quantile_between(after, after, 0.99) is None


def test_a_missed_promise_fails_and_a_number_without_one_does_not() -> None:
    met = Measure("rate", 10, "msg/s", 5, is_floor=True)
    missed = Measure("P99", 10, "ms", 5)
    free = Measure("P50", 10, "ms")
    assert (met.is_met, missed.is_met, free.is_met) == (True, False, None)
    assert not has_failed([Row("a", (met, free), None, 0)])
    assert has_failed([Row("a", (met, missed), None, 0)])


def test_a_load_above_four_fifths_of_a_core_is_said_to_be_the_limit() -> None:
    assert Row("a", (), 30, 81).is_load_bound
    assert not Row("a", (), 30, 79).is_load_bound


def test_samples_are_found_by_their_labels() -> None:
    text = 'reads_total{source="device"} 3\nreads_total{source="page_cache"} 4\nreads_total_x 9\n'
    assert parse_samples(text, "reads_total") == {'source="device"': 3, 'source="page_cache"': 4}
    assert parse_samples("ready 1\n", "ready") == {"": 1}


def test_growth_is_the_last_quarter_over_the_second() -> None:
    assert drift([90, 90, 10, 10, 12, 12, 15, 15]) == 1.5
    assert drift([1, 2, 3]) is None
