"""The table of metrics, its counters, and the text that Prometheus reads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from broker.metrics import (
    CHILDREN_MAX,
    DURATION_BOUNDS,
    METRICS,
    OVERFLOW_LABEL,
    RECENT_WINDOW_MS,
    Distribution,
    MetricKind,
    Metrics,
    MetricSpec,
    percentile,
)
from broker.runtime.exposition import head_lines, sample_line, stored_lines
from broker.server.computed_metrics import COMPUTED

UNITS = ("_seconds", "_bytes")


@pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
def test_every_metric_is_named_as_prometheus_wants(spec: MetricSpec) -> None:
    assert spec.name.startswith("hermes_")
    assert (spec.kind is MetricKind.COUNTER) == spec.name.endswith("_total")
    assert spec.documentation.endswith(".")
    assert spec.kind is not MetricKind.HISTOGRAM or spec.name.endswith(UNITS)
    assert hasattr(Metrics(), spec.name.removeprefix("hermes_"))


def test_names_are_unique_and_every_computed_metric_has_its_source() -> None:
    names = [spec.name for spec in METRICS]
    assert len(set(names)) == len(names)
    assert set(COMPUTED) == {spec.name for spec in METRICS if spec.is_computed}


def test_bound_children_count_where_calls_with_labels_count() -> None:
    metrics = Metrics()
    bound = metrics.requests_total.labels(api="Produce")
    bound.add()
    bound.value += 2
    metrics.requests_total.add(1, api="Produce")
    metrics.connections.add(3)
    metrics.connections.add(-1)
    assert metrics.requests_total.children[("Produce",)].value == 4
    assert metrics.connections.children[()].value == 2


def test_label_values_are_bounded() -> None:
    metric = Metrics().bytes_in_total
    for index in range(CHILDREN_MAX + 500):
        metric.add(1, topic=f"t{index}")
    assert len(metric.children) == CHILDREN_MAX + 1
    assert metric.children[(OVERFLOW_LABEL,)].value == 500


def test_a_forgotten_label_value_takes_its_children_with_it() -> None:
    metric = Metrics().request_errors_total
    for api in ("Produce", "Fetch"):
        metric.add(1, api=api, error="X")
        metric.add(1, api=api, error="Y")
    metric.forget(api="Produce")
    assert sorted(metric.children) == [("Fetch", "X"), ("Fetch", "Y")]


@given(
    st.lists(st.floats(0, 70), min_size=1, max_size=200),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_a_percentile_lies_in_the_bucket_of_the_exact_one(
    values: list[float], quantile: float
) -> None:
    distribution = Distribution()
    for value in values:
        distribution.observe(value)
    exact = sorted(values)[max(0, math.ceil(quantile * len(values) - 1e-9) - 1)]
    found = distribution.percentile(quantile)
    assert found is not None
    above = next(bound for bound in DURATION_BOUNDS if bound >= exact)
    below = max(bound for bound in (0.0, *DURATION_BOUNDS) if bound < exact or bound == 0.0)
    assert below <= found <= above
    assert distribution.count == len(values)


def test_percentiles_of_nothing_and_beyond_the_last_bound() -> None:
    assert percentile([0] * 41, 0.5) is None
    distribution = Distribution()
    distribution.observe(1e9)
    assert distribution.percentile(0.5) == DURATION_BOUNDS[-1]


def test_recent_percentiles_forget_what_is_older_than_two_windows() -> None:
    distribution = Distribution()
    distribution.recent_counts(0)
    distribution.observe(1.0)
    assert sum(distribution.recent_counts(1)) == 1
    assert sum(distribution.recent_counts(RECENT_WINDOW_MS)) == 1
    distribution.observe(1.0)
    assert sum(distribution.recent_counts(RECENT_WINDOW_MS + 1)) == 2
    assert sum(distribution.recent_counts(2 * RECENT_WINDOW_MS)) == 1
    assert sum(distribution.recent_counts(3 * RECENT_WINDOW_MS)) == 0


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**53) | st.floats(0, 1e9))
def test_samples_read_back_by_prometheus_own_parser(first: str, second: str, value: float) -> None:
    spec = MetricSpec("hermes_test_bytes", MetricKind.GAUGE, 'a "help"\nline', ("a", "b"))
    labels = [("a", first), ("b", second)]
    text = head_lines(spec) + sample_line(spec.name, labels, value)
    if "\r" in text or len(text.splitlines()) != text.count("\n"):
        return  # the parser of the reference library splits lines at more than \n
    (family,) = text_string_to_metric_families(text)
    assert family.documentation == spec.documentation
    (sample,) = family.samples
    assert sample.labels == dict(labels)
    assert sample.value == value


def test_a_histogram_reads_back_with_cumulative_buckets() -> None:
    metrics = Metrics()
    for seconds in (0.00005, 0.001, 0.001, 500.0):
        metrics.request_duration_seconds.observe(seconds, api="Produce")
    spec = metrics.request_duration_seconds.spec
    text = head_lines(spec) + "".join(stored_lines(metrics.request_duration_seconds))
    (family,) = text_string_to_metric_families(text)
    buckets = [s for s in family.samples if s.name.endswith("_bucket")]
    counts = [sample.value for sample in buckets]
    assert counts == sorted(counts)
    assert (buckets[0].value, buckets[-2].value, buckets[-1].value) == (1, 3, 4)
    assert buckets[-1].labels == {"api": "Produce", "le": "+Inf"}
    by_name = {sample.name: sample.value for sample in family.samples}
    assert by_name["hermes_request_duration_seconds_count"] == 4
    assert by_name["hermes_request_duration_seconds_sum"] == pytest.approx(500.00205)
