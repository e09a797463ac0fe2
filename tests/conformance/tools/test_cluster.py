"""The tools that ask what a cluster is, can and has to move."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.conformance.tools.java_tools import JavaTools, write_file

NewTopic = Callable[[int], str]
NEEDED = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "DeleteRecords",
    "DescribeLogDirs",
    "OffsetDelete",
    "AlterConfigs",
    "OffsetForLeaderEpoch",
    "ElectLeaders",
    "ListPartitionReassignments",
    "DescribeTopicPartitions",
    "ListConfigResources",
    "DescribeProducers",
)


def test_api_versions_lists_each_api_in_a_version_that_the_tools_use(tools: JavaTools) -> None:
    ran = tools.ok("kafka-broker-api-versions")
    apis = dict(re.findall(r"^\t(\w+)\(\d+\): (.*?),?$", ran.out, re.MULTILINE))
    for name in NEEDED:
        assert "usable: " in apis[name], f"{name}: {apis[name]}"


def test_the_cluster_has_an_id(tools: JavaTools) -> None:
    command = ["cluster-id", "--bootstrap-server", tools.bootstrap]
    ran = tools.run_class("org.apache.kafka.tools.ClusterTool", command)
    assert ran.code == 0, ran.said
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", ran.lines[-1])


def test_an_election_has_nothing_to_elect(
    tools: JavaTools, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    ran = tools.ok(
        "kafka-leader-election",
        *("--election-type", "preferred", "--topic", topic, "--partition", "0"),
    )
    assert f"Valid replica already elected for partitions {topic}-0" in ran.said
    plan = {"partitions": [{"topic": topic, "partition": 7}]}
    path = write_file(tmp_path, "election.json", json.dumps(plan))
    failed = tools.run(
        "kafka-leader-election", "--election-type", "preferred", "--path-to-json-file", path
    )
    assert failed.code == 1
    assert f"{topic}-7" in failed.said


def test_no_reassignment_is_under_way(tools: JavaTools) -> None:
    ran = tools.ok("kafka-reassign-partitions", "--list")
    assert "No partition reassignments found." in ran.said
