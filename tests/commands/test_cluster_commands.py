"""hermes cluster and hermes config, against ours and Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.client.blocking import BlockingClient
from tests.commands.conftest import Run, eventually
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def broker_id(client: BlockingClient) -> int:
    return client.describe_cluster().nodes[0].node_id


def test_the_cluster_is_described(run: Run, client: BlockingClient, topic: str) -> None:
    about = run("cluster", "describe", "--json")
    assert about.code == 0
    item = about.item
    assert item["cluster_id"] == client.describe_cluster().cluster_id
    assert (item["brokers"], item["offline_partitions"], item["out_of_sync_partitions"]) == (
        1,
        0,
        0,
    )
    assert item["topics"] >= 1
    assert item["partitions"] >= 2
    assert "controller" in run("cluster", "describe").out


def test_brokers_and_their_leaderships(
    run: Run, broker_id: int, bootstrap: str, topic: str
) -> None:
    (item,) = run("cluster", "brokers", "--json").items
    assert (item["broker"], f"{item['host']}:{item['port']}") == (broker_id, bootstrap)
    assert item["leads"] >= 2
    assert bootstrap in run("cluster", "brokers").out


def test_disks_and_the_largest_partitions(
    run: Run, client: BlockingClient, broker_id: int, topic: str
) -> None:
    client.produce(topic, bytes(100_000), partition=1)
    item = run("cluster", "log-dirs", "--topic", topic, "--top", "1", "--json").item
    (largest,) = item["largest"]
    assert (item["broker"], item["replicas"]) == (broker_id, 2)
    assert (largest["topic"], largest["partition"]) == (topic, 1)
    assert int(item["size_bytes"]) >= int(largest["size_bytes"]) > 100_000
    assert int(item["total_bytes"]) >= int(item["usable_bytes"]) > 0
    shown = run("cluster", "log-dirs", "--broker", str(broker_id), "--topic", topic).out
    assert "97.7 KiB" in shown
    assert "there is no broker 4711" in run("cluster", "log-dirs", "--broker", "4711").err


def test_apis_with_the_version_in_use(run: Run, broker_id: int) -> None:
    rows = {item["name"]: item for item in run("cluster", "api-versions", "--json").items}
    produce = rows["Produce"]
    assert produce["min_version"] <= produce["used_version"] <= produce["max_version"]
    one = run("cluster", "api-versions", "--broker", str(broker_id), "--json")
    assert {item["name"] for item in one.items} == set(rows)


def test_settings_are_set_described_and_unset(run: Run, client: BlockingClient, topic: str) -> None:
    changed = run("config", "set", "topic", topic, "retention.ms=86400000", "--json").item
    assert (changed["kind"], changed["name"], changed["after"]) == ("topic", topic, "86400000")
    eventually(lambda: client.topic_configs([topic])[topic]["retention.ms"].value == "86400000")
    described = run("config", "describe", "topic", topic, "--json").items
    row = next(item for item in described if item["setting"] == "retention.ms")
    assert (row["value"], row["from"], row["type"]) == ("86400000", "topic", "long")
    assert not row["is_default"]
    assert row["documentation"]
    everything = run("config", "describe", "topic", topic, "--all", "--json").items
    assert len(everything) > len(described)
    explained = run("config", "describe", "topic", topic, "retention.ms", "--docs").out
    assert "retention.ms = 86400000\n    long, from topic, can be changed\n" in explained
    assert run("config", "unset", "topic", topic, "retention.ms").code == 0
    eventually(lambda: client.topic_configs([topic])[topic]["retention.ms"].source != 1)


def test_a_dry_run_changes_nothing(run: Run, client: BlockingClient, topic: str) -> None:
    tried = run("config", "set", "topic", topic, "retention.ms=5000", "--dry-run")
    assert (tried.code, "WOULD BE" in tried.out) == (0, True)
    refused = run("config", "set", "topic", topic, "retention.ms=soon", "--dry-run")
    assert refused.code == 1
    assert client.topic_configs([topic])[topic]["retention.ms"].source != 1


def test_an_unknown_setting_gets_the_nearest_name(run: Run, topic: str) -> None:
    refused = run("config", "set", "topic", topic, "retention.mss=5000", "--json")
    assert refused.code == 1
    assert refused.items == []
    assert "retention.ms" in refused.err.replace("retention.mss", "")
    read = run("config", "describe", "topic", topic, "retention.mss")
    assert "Did you mean 'retention.ms'?" in read.err


def test_settings_of_brokers(run: Run, client: BlockingClient, broker_id: int) -> None:
    words = ("config", "set", "broker", "all", "log.retention.ms=7200000")
    all_brokers = ("config", "describe", "broker", "all", "log.retention.ms", "--json")
    default = client.broker_configs(broker_id)["log.retention.ms"].value
    unset = run(*all_brokers).item
    assert (unset["value"], unset["from"]) == (default, "default")
    assert run(*words, "--dry-run", "--json").item["before"] == default
    assert run(*words).code == 0
    eventually(lambda: client.broker_configs(broker_id)["log.retention.ms"].value == "7200000")
    one = run("config", "describe", "broker", str(broker_id), "log.retention.ms", "--json").item
    assert (one["value"], one["from"]) == ("7200000", "cluster")
    assert run(*all_brokers).item == one
    assert run("config", "unset", "broker", "all", "log.retention.ms").code == 0
    eventually(lambda: client.broker_configs(broker_id)["log.retention.ms"].value != "7200000")
    assert "no broker 4711" in run("config", "describe", "broker", "4711").err
    assert "give its id, or all" in run("config", "describe", "broker", "first").err


def test_taking_away_what_was_not_set_changes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerProcess(tmp_path, {"log.retention.ms": 3_600_000}) as broker:
        monkeypatch.setenv("HERMES_BOOTSTRAP", broker.bootstrap)
        assert run("topics", "create", "orders").code == 0
        for words in (("broker", "all", "log.retention.ms"), ("topic", "orders", "retention.ms")):
            item = run("config", "unset", *words, "--json").item
            assert (item["before"], item["after"]) == ("3600000", "3600000")


def test_owners_of_settings_are_listed(run: Run, topic: str) -> None:
    listed = run("config", "list", "topic", "--json").items
    assert {"kind": "topic", "name": topic} in listed
    assert run("config", "list", "topik").code == 2
