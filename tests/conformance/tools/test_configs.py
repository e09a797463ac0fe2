"""kafka-configs: what is set, where each value comes from, and changing it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.tools.java_tools import JavaTools, Ran, write_file

NewTopic = Callable[[int], str]
BROKER_SETTING = "log.retention.ms"
"""A setting that Apache Kafka changes while it runs, on one broker and for all."""


def settings(ran: Ran) -> dict[str, tuple[str, str]]:
    """By name: the value and the synonyms, from the most to the least specific."""
    found = re.findall(r"^  (\S+?)=(.*?) sensitive=\w+ synonyms=\{(.*)\}$", ran.out, re.MULTILINE)
    return {name: (value, synonyms) for name, value, synonyms in found}


def of_topic(tools: JavaTools, topic: str, *options: str) -> dict[str, tuple[str, str]]:
    return settings(
        tools.ok(
            "kafka-configs",
            "--describe",
            "--entity-type",
            "topics",
            "--entity-name",
            topic,
            *options,
        )
    )


def alter_topic(tools: JavaTools, topic: str, *options: str) -> Ran:
    return tools.run(
        "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", topic, *options
    )


@pytest.fixture
def broker_id(tools: JavaTools) -> str:
    ran = tools.ok("kafka-broker-api-versions")
    found = re.search(r"\(id: (\d+) ", ran.out)
    assert found, ran.said
    return found[1]


def test_describe_all_names_each_setting_of_a_topic_with_its_source(
    tools: JavaTools, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    found = of_topic(tools, topic, "--all")
    assert {"retention.ms", "cleanup.policy", "max.message.bytes", "compression.type"} <= set(found)
    value, synonyms = found["cleanup.policy"]
    assert value == "delete"
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete" in synonyms


def test_a_setting_of_a_topic_is_changed_and_taken_back(
    tools: JavaTools, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    done = alter_topic(tools, topic, "--add-config", "retention.ms=3600000,max.message.bytes=5000")
    assert done.code == 0, done.said
    found = of_topic(tools, topic)
    assert found["retention.ms"][0] == "3600000"
    assert found["retention.ms"][1].startswith("DYNAMIC_TOPIC_CONFIG:retention.ms=3600000")
    assert found["max.message.bytes"][0] == "5000"
    assert alter_topic(tools, topic, "--delete-config", "retention.ms").code == 0
    found = of_topic(tools, topic)
    assert "retention.ms" not in found
    assert found["max.message.bytes"][0] == "5000", "what was not named stays"


def test_kafkas_word_for_durability_sets_and_takes_back_ours(
    tools: JavaTools, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    assert alter_topic(tools, topic, "--add-config", "flush.messages=1").code == 0
    found = of_topic(tools, topic)
    assert (found["flush.messages"][0], found["durability"][0]) == ("1", "fsync")
    assert found["flush.messages"][1].startswith("DYNAMIC_TOPIC_CONFIG:flush.messages=1")
    refused = alter_topic(tools, topic, "--add-config", "flush.messages=1000")
    assert refused.code != 0
    assert "must be 1" in refused.said
    assert alter_topic(tools, topic, "--delete-config", "flush.messages").code == 0
    found = of_topic(tools, topic)
    assert "flush.messages" not in found
    assert "durability" not in found


def test_values_with_commas_are_given_in_brackets_or_a_file(
    tools: JavaTools, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    assert alter_topic(tools, topic, "--add-config", "cleanup.policy=[compact,delete]").code == 0
    assert of_topic(tools, topic)["cleanup.policy"][0] == "compact,delete"
    path = write_file(
        tmp_path, "changes.properties", "cleanup.policy=delete\nsegment.bytes=2097152\n"
    )
    assert alter_topic(tools, topic, "--add-config-file", path).code == 0
    found = of_topic(tools, topic)
    assert (found["cleanup.policy"][0], found["segment.bytes"][0]) == ("delete", "2097152")


@pytest.mark.parametrize(
    "change", ["retention.ms=soon", "cleanup.policy=forget", "no.such.setting=1"]
)
def test_a_bad_change_of_a_topic_is_refused_and_changes_nothing(
    tools: JavaTools, new_topic: NewTopic, change: str
) -> None:
    topic = new_topic(1)
    refused = alter_topic(tools, topic, "--add-config", f"max.message.bytes=5000,{change}")
    assert refused.code == 1
    assert change.partition("=")[0] in refused.said
    assert "max.message.bytes" not in of_topic(tools, topic)


def test_settings_of_a_topic_that_is_not_there_are_refused(tools: JavaTools) -> None:
    options = ("--entity-type", "topics", "--entity-name", "no-such-topic")
    described = tools.run("kafka-configs", "--describe", *options)
    assert "The topic 'no-such-topic' doesn't exist" in described.said
    refused = tools.run("kafka-configs", "--alter", *options, "--add-config", "retention.ms=1")
    assert refused.code == 1
    assert "UnknownTopicOrPartitionException" in refused.said


def test_describe_all_names_each_setting_of_a_broker(tools: JavaTools, broker_id: str) -> None:
    found = settings(
        tools.ok(
            "kafka-configs",
            *("--describe", "--all", "--entity-type", "brokers", "--entity-name", broker_id),
        )
    )
    assert found["node.id"][0] == broker_id
    assert found["num.partitions"][0] == "4"
    assert found["num.partitions"][1].startswith("STATIC_BROKER_CONFIG:num.partitions=4")
    assert found["message.max.bytes"][1] == "DEFAULT_CONFIG:message.max.bytes=1048588"
    assert "log.retention.ms" in found


@pytest.fixture(params=["one broker", "all brokers"])
def entity(
    request: pytest.FixtureRequest, tools: JavaTools, broker_id: str
) -> Iterator[tuple[str, ...]]:
    """The options that name the broker, or all of them; its setting is taken back afterwards."""
    is_one = request.param == "one broker"
    words = ("--entity-name", broker_id) if is_one else ("--entity-default",)
    yield ("--entity-type", "brokers", *words)
    tools.run(
        *("kafka-configs", "--alter", "--entity-type", "brokers", *words),
        *("--delete-config", BROKER_SETTING),
    )


def test_a_setting_of_brokers_is_changed_and_taken_back(
    tools: JavaTools, entity: tuple[str, ...], new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    tools.ok("kafka-configs", "--alter", *entity, "--add-config", f"{BROKER_SETTING}=7654321")
    found = tools.until(
        lambda: settings(tools.ok("kafka-configs", "--describe", *entity)),
        lambda found: BROKER_SETTING in found,
    )
    assert found[BROKER_SETTING][0] == "7654321"
    source = "DYNAMIC_DEFAULT_BROKER" if "--entity-default" in entity else "DYNAMIC_BROKER"
    assert found[BROKER_SETTING][1].startswith(f"{source}_CONFIG:{BROKER_SETTING}=7654321")
    tools.until(
        lambda: of_topic(tools, topic, "--all")["retention.ms"][0],
        lambda value: value == "7654321",
    )
    tools.ok("kafka-configs", "--alter", *entity, "--delete-config", BROKER_SETTING)
    tools.until(
        lambda: settings(tools.ok("kafka-configs", "--describe", *entity)),
        lambda found: BROKER_SETTING not in found,
    )
    tools.until(
        lambda: of_topic(tools, topic, "--all")["retention.ms"][0],
        lambda value: value != "7654321",
    )


def test_a_setting_that_only_a_start_reads_is_refused(tools: JavaTools, broker_id: str) -> None:
    refused = tools.run(
        "kafka-configs",
        *("--alter", "--entity-type", "brokers", "--entity-name", broker_id),
        *("--add-config", "node.id=7"),
    )
    assert refused.code == 1
    assert "node.id" in refused.said
