"""kafka-topics: create, list, describe with its filters, grow, delete."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.conformance.tools.java_tools import JavaTools, Ran

Unused = Callable[[], str]


@pytest.fixture
def topic(tools: JavaTools, unused: Unused) -> str:
    """A topic of three partitions with one setting of its own."""
    name = unused()
    tools.ok(
        "kafka-topics",
        *("--create", "--topic", name, "--partitions", "3", "--replication-factor", "1"),
        *("--config", "retention.ms=86400000"),
    )
    tools.until_ok("kafka-topics", "--describe", "--topic", name)
    return name


def described(ran: Ran) -> dict[str, str]:
    """The summary line of the only topic that is described, by its labels."""
    (line,) = [line for line in ran.lines if line.startswith("Topic:")]
    return dict(re.findall(r"(\w+): (\S*)", line))


def test_a_created_topic_is_listed_and_described_with_its_settings(
    tools: JavaTools, topic: str
) -> None:
    assert topic in tools.ok("kafka-topics", "--list").lines
    ran = tools.ok("kafka-topics", "--describe", "--topic", topic)
    summary = described(ran)
    assert (summary["Topic"], summary["PartitionCount"]) == (topic, "3")
    assert summary["ReplicationFactor"] == "1"
    assert len(summary["TopicId"]) == 22
    assert "retention.ms=86400000" in summary["Configs"].split(",")
    rows = [re.findall(r"(\w+): (\S*)", line) for line in ran.lines if "\tPartition: " in line]
    assert [dict(row)["Partition"] for row in rows] == ["0", "1", "2"]
    for row in rows:
        fields = dict(row)
        assert fields["Leader"] == fields["Replicas"] == fields["Isr"]


def test_a_topic_without_a_count_gets_the_brokers_default(tools: JavaTools, unused: Unused) -> None:
    name = unused()
    tools.ok("kafka-topics", "--create", "--topic", name)
    found = described(tools.until_ok("kafka-topics", "--describe", "--topic", name))
    assert found["PartitionCount"] == "4"


def test_list_takes_a_pattern_and_can_leave_internal_topics_out(
    tools: JavaTools, topic: str
) -> None:
    listed = tools.ok("kafka-topics", "--list", "--topic", f"{topic[:-1]}.*").lines
    assert topic in listed
    assert tools.ok("kafka-topics", "--list", "--topic", f"no{topic}").lines == []
    without = tools.ok("kafka-topics", "--list", "--exclude-internal").lines
    assert topic in without
    assert "__consumer_offsets" not in without


def test_describe_by_id_finds_the_same_topic(tools: JavaTools, topic: str) -> None:
    by_name = tools.ok("kafka-topics", "--describe", "--topic", topic)
    by_id = tools.ok("kafka-topics", "--describe", "--topic-id", described(by_name)["TopicId"])
    assert described(by_id) == described(by_name)


@pytest.mark.parametrize(
    "filter_option",
    [
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--under-min-isr-partitions",
        "--at-min-isr-partitions",
    ],
)
def test_filters_for_trouble_answer_for_a_healthy_topic(
    tools: JavaTools, topic: str, filter_option: str
) -> None:
    ran = tools.ok("kafka-topics", "--describe", "--topic", topic, filter_option)
    found = [line for line in ran.lines if "Partition:" in line]
    is_at_minimum = filter_option == "--at-min-isr-partitions"
    assert len(found) == (3 if is_at_minimum else 0), "one replica, and one is the minimum"


def test_topics_with_overrides_are_those_with_settings_of_their_own(
    tools: JavaTools, topic: str
) -> None:
    ran = tools.ok("kafka-topics", "--describe", "--topics-with-overrides", "--topic", topic)
    assert "retention.ms=86400000" in described(ran)["Configs"]
    assert not [line for line in ran.lines if "\tPartition: " in line]


def test_partitions_are_added_and_never_taken_away(tools: JavaTools, topic: str) -> None:
    tools.ok("kafka-topics", "--alter", "--topic", topic, "--partitions", "5")
    tools.until(
        lambda: described(tools.ok("kafka-topics", "--describe", "--topic", topic)),
        lambda summary: summary["PartitionCount"] == "5",
    )
    refused = tools.run("kafka-topics", "--alter", "--topic", topic, "--partitions", "2")
    assert refused.code == 1
    assert topic in refused.said
    assert "5" in refused.said, "how many there are"


def test_a_deleted_topic_is_gone(tools: JavaTools, topic: str) -> None:
    tools.ok("kafka-topics", "--delete", "--topic", topic)
    tools.until(
        lambda: tools.ok("kafka-topics", "--list").lines, lambda listed: topic not in listed
    )
    gone = tools.run("kafka-topics", "--describe", "--topic", topic)
    assert gone.code == 1
    assert "does not exist" in gone.said
    assert tools.run("kafka-topics", "--delete", "--topic", topic).code == 1
    tools.ok("kafka-topics", "--delete", "--topic", topic, "--if-exists")


def test_creating_twice_is_refused_unless_asked_for(tools: JavaTools, topic: str) -> None:
    refused = tools.run("kafka-topics", "--create", "--topic", topic)
    assert refused.code == 1
    assert "already exists" in refused.said
    tools.ok("kafka-topics", "--create", "--topic", topic, "--if-not-exists")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--topic", "bad name!"), "bad name!"),
        (("--topic", "x" * 250), "249"),
        (("--topic", "{unused}", "--partitions", "0"), "greater than 0"),
        (("--topic", "{unused}", "--replication-factor", "3"), "3"),
        (("--topic", "{unused}", "--config", "retention.ms=soon"), "retention.ms"),
        (("--topic", "{unused}", "--config", "no.such=1"), "no.such"),
    ],
    ids=["name", "length", "partitions", "replicas", "value", "setting"],
)
def test_what_cannot_be_created_is_refused_with_the_reason(
    tools: JavaTools, unused: Unused, options: tuple[str, ...], complaint: str
) -> None:
    name = unused()
    refused = tools.run("kafka-topics", "--create", *(word.format(unused=name) for word in options))
    assert refused.code == 1
    assert complaint in refused.said
    assert name not in tools.ok("kafka-topics", "--list").lines
