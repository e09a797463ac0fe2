"""The broker's metrics text, against the table of the broker's own endpoint and hostile labels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from hermes_console.live.metricstext import read_metrics
from hermes_console.live.observation import TopicPartition

TEXT = """\
# HELP hermes_records_in_total Records appended for clients.
# TYPE hermes_records_in_total counter
hermes_records_in_total{topic="orders"} 100
hermes_records_in_total{topic="pay}ments"} 23.0
# TYPE hermes_bytes_in_total counter
hermes_bytes_in_total{topic="orders"} 4.5e3
# TYPE hermes_records_out_total counter
hermes_disk_used_bytes 1000
hermes_disk_free_bytes 9007199254740993
hermes_log_size_bytes{topic="a",partition="0"} 7
hermes_log_size_bytes{topic="a",partition="1"} 8
hermes_group_oldest_unread_seconds{group="app",topic="orders",partition="3"} 12.5
hermes_group_oldest_unread_seconds{group="app",topic="orders",partition="x"} 1
hermes_uptime_seconds NaN
other{a="b"} 1
"""


def test_counters_are_summed_over_topics() -> None:
    found = read_metrics(TEXT)
    assert found.records_in_total == 123
    assert found.bytes_in_total == 4_500


def test_declared_counter_without_a_sample_is_zero_and_an_absent_one_unknown() -> None:
    found = read_metrics(TEXT)
    assert found.records_out_total == 0
    assert found.bytes_out_total is None


def test_sizes_are_whole_numbers() -> None:
    found = read_metrics(TEXT)
    assert (found.disk_used_bytes, found.log_bytes) == (1_000, 15)


def test_age_of_the_oldest_unread_record_is_read_per_group_and_partition() -> None:
    assert read_metrics(TEXT).oldest_unread_seconds == {("app", TopicPartition("orders", 3)): 12.5}


def test_the_partition_that_waits_most_for_compaction_speaks_for_its_topic() -> None:
    lines = [
        f'hermes_cleaner_dirty_ratio{{topic="{topic}",partition="{partition}"}} {share}'
        for topic, partition, share in (("p", 0, 0.25), ("p", 1, 0.5), ("p", 2, 0.1), ("q", 0, 0))
    ]
    storage = read_metrics("\n".join([*lines, "hermes_cleaner_uncleanable_partitions 3"])).storage
    assert storage.dirty_shares == {"p": 0.5}
    assert storage.uncleanable_count == 3


def test_text_of_something_else_leaves_everything_unknown() -> None:
    found = read_metrics("<html>{} \n} x\nhermes_disk_used_bytes{\n")
    assert found.records_in_total is None


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_name_of_group_and_topic_is_read_back(group: str, topic: str) -> None:
    registry = CollectorRegistry()
    gauge = Gauge(
        "hermes_group_oldest_unread_seconds",
        "…",
        ["group", "topic", "partition"],
        registry=registry,
    )
    try:
        gauge.labels(group=group, topic=topic, partition="1").set(2)
        text = generate_latest(registry).decode()
    except UnicodeEncodeError:
        return
    assert read_metrics(text).oldest_unread_seconds == {(group, TopicPartition(topic, 1)): 2.0}


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    read_metrics(text)
