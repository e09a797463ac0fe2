"""hermes groups, against ours and Apache Kafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client.blocking import EARLIEST, BlockingClient, CommittedOffset, TopicPartition
from broker.client.cluster import Cluster
from broker.client.consumer import Consumer
from broker.commands.groups_reset import read_plan
from broker.commands.text import BadText
from tests.commands.conftest import Run, eventually


@pytest.fixture
def full(client: BlockingClient, topic: str) -> str:
    """A topic with ten records, a second apart, in partition 0 and none in 1."""
    for number in range(10):
        client.produce(topic, b"%d" % number, partition=0, timestamp_ms=1_000_000 + number * 1_000)
    return topic


@pytest.fixture
def active(client: BlockingClient, bootstrap: str, full: str) -> Iterator[str]:
    """A group of that name with one member that polls."""
    stop = threading.Event()

    async def consume(cluster: Cluster) -> None:
        consumer = Consumer(cluster, full, [full], commits_automatically=False)
        await consumer.start()
        try:
            while not stop.is_set():
                await consumer.poll(100)
        finally:
            await consumer.close()

    with BlockingClient(bootstrap, timeout_ms=60_000) as own:
        thread = threading.Thread(target=lambda: own.run(consume))
        thread.start()
        try:
            eventually(lambda: client.describe_groups([full])[0].state == "Stable")
            yield full
        finally:
            stop.set()
            thread.join(30)


def commits(client: BlockingClient, group: str) -> dict[int, int]:
    found = client.committed_offsets([group])[group]
    assert isinstance(found, dict)
    offsets: dict[TopicPartition, CommittedOffset] = found
    return {where.partition: row.offset for where, row in offsets.items()}


def test_lag_counts_what_consumers_see(run: Run, client: BlockingClient, topic: str) -> None:
    """Of a topic with a delivery window: not what is expired, nor what is not due."""
    if "delivery.delay.ms" not in client.topic_configs([topic])[topic]:
        return  # Apache Kafka has no such setting
    client.alter_topic_config(
        topic, {"message.timestamp.type": "LogAppendTime", "delivery.ttl.ms": "1500"}
    )
    where = TopicPartition(topic, 0)
    for _ in range(4):
        client.produce(topic, b"old", partition=0)
    client.set_committed_offsets(topic, {where: 1})
    eventually(lambda: client.offsets({where: EARLIEST})[where].offset == 4)
    assert run("groups", "list", topic, "--lag", "--json").item["lag"] == "0"
    client.alter_topic_config(topic, {"delivery.ttl.ms": "7200000", "delivery.delay.ms": "3600000"})
    client.produce(topic, b"new", partition=0)
    item = run("groups", "describe", topic, "--json").item
    assert item["lag"] == "3"
    assert [row["end_offset"] for row in item["partitions"]] == ["4"]


def test_a_group_is_created_described_listed_and_deleted(
    run: Run, client: BlockingClient, full: str
) -> None:
    made = run("groups", "create", full, "--topic", full, "--at", "-4", "--json")
    assert made.code == 0
    assert [item["after"] for item in made.items] == ["6", "0"]
    described = run("groups", "describe", full, "--json").item
    assert (described["state"], described["lag"], described["members"]) == ("Empty", "4", [])
    (row,) = [r for r in described["partitions"] if r["partition"] == 0]
    assert (row["committed_offset"], row["end_offset"], row["lag"]) == ("6", "10", "4")
    (listed,) = run("groups", "list", full, "--lag", "--state", "empty", "--json").items
    assert listed["lag"] == "4"
    assert run("groups", "list", full, "-q").out == f"{full}\n"
    assert "commits for 2 partitions" in run("groups", "delete", full).err
    assert commits(client, full) == {0: 6, 1: 0}
    assert run("groups", "delete", full, "--yes").out == f"group '{full}' deleted\n"
    assert full not in [row.group_id for row in client.list_groups()]


def test_an_unknown_group_gets_the_nearest_name(run: Run, full: str) -> None:
    run("groups", "create", full, "--topic", full)
    wrong = full.replace("test", "tset")
    for words in (
        ("describe", wrong),
        ("reset", wrong, "--to-latest"),
        ("delete", wrong, "--yes"),
        ("delete-offsets", wrong, "--topic", full, "--yes"),
    ):
        refused = run("groups", *words)
        assert refused.code == 1
        assert f"there is no group '{wrong}'. Did you mean '{full}'" in refused.err


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-offset", "4"], 4),
        (["--to-offset", "99"], 10),
        (["--to-time", "1003500"], 4),
        (["--to-time", "2026-01-01"], 10),
        (["--shift-by", "2"], 7),
        (["--shift-by=-3"], 2),
        (["--shift-by=-30"], 0),
        (["--to-current"], 5),
    ],
)
def test_reset_previews_what_execute_does(
    run: Run, client: BlockingClient, full: str, target: list[str], wanted: int
) -> None:
    client.set_committed_offsets(full, {TopicPartition(full, 0): 5})
    preview = run("groups", "reset", full, *target, "--json")
    assert preview.item["before"] == "5"
    assert preview.item["after"] == str(wanted)
    assert preview.item["outcome"] == "would_change"
    assert "preview" in preview.err
    assert commits(client, full) == {0: 5}
    done = run("groups", "reset", full, *target, "--execute", "--json")
    assert (done.code, done.item["after"], done.item["outcome"]) == (0, str(wanted), "changed")
    assert commits(client, full) == {0: wanted}


def test_a_reset_is_undone_from_what_was_saved(
    run: Run, client: BlockingClient, full: str, tmp_path: Path
) -> None:
    saved = str(tmp_path / "before.csv")
    client.set_committed_offsets(full, {TopicPartition(full, 0): 5, TopicPartition(full, 1): 0})
    run("groups", "reset", full, "--to-latest", "--execute", "--save", saved)
    assert commits(client, full) == {0: 10, 1: 0}
    assert Path(saved).read_text() == f"{full},0,5\n{full},1,0\n"
    assert run("groups", "reset", full, "--from-file", saved, "--execute").code == 0
    assert commits(client, full) == {0: 5, 1: 0}
    nowhere = str(tmp_path / "none" / "before.csv")
    refused = run("groups", "reset", full, "--to-latest", "--execute", "--save", nowhere)
    assert refused.code == 1
    assert commits(client, full) == {0: 5, 1: 0}


def test_a_reset_takes_the_partitions_that_were_chosen(
    run: Run, client: BlockingClient, full: str
) -> None:
    client.set_committed_offsets(full, {TopicPartition(full, 0): 5})
    run("groups", "reset", full, "--topic", f"{full}:1", "--to-earliest", "--execute")
    assert commits(client, full) == {0: 5, 1: 0}
    wrong = run("groups", "reset", full, "--topic", f"{full}:7", "--to-earliest")
    assert "has no partition 7" in wrong.err
    other = run("groups", "reset", full, "--topic", f"{full}:0,1", "--shift-by", "1")
    assert other.code == 0


def test_an_active_group_is_refused_with_the_reason(
    run: Run, client: BlockingClient, active: str
) -> None:
    refused = run("groups", "reset", active, "--topic", active, "--to-earliest", "--execute")
    assert refused.code == 1
    assert "with 1 member (hermes on " in refused.err
    assert "stop them first" in refused.err
    assert commits(client, active) == {}
    assert "has 1 member" in run("groups", "delete", active, "--yes").err
    described = run("groups", "describe", active, "--json").item
    assert [row["partition"] for row in described["members"][0]["partitions"]] == [0, 1]
    assert {row["lag"] for row in described["partitions"]} == {None}
    assert "unknown (and 2 partitions without a commit)" in run("groups", "describe", active).out
    assert f"{active}: 0-1" in run("groups", "describe", active, "--members").out
    created = run("groups", "create", active, "--topic", active)
    assert "exists and has members" in created.err


def test_commits_are_forgotten_one_by_one(run: Run, client: BlockingClient, full: str) -> None:
    client.set_committed_offsets(full, {TopicPartition(full, 0): 5, TopicPartition(full, 1): 0})
    words = ("groups", "delete-offsets", full, "--topic", f"{full}:0")
    assert run(*words).code == 1
    assert commits(client, full) == {0: 5, 1: 0}
    assert run(*words, "--yes", "--json").item["before"] == "5"
    assert commits(client, full) == {1: 0}
    assert "has no such commits" in run(*words, "--yes").err


def test_a_plan_that_cannot_be_read_names_the_line() -> None:
    assert read_plan('# kept\n"t",0,5\n\nt,1,6\n') == {
        TopicPartition("t", 0): 5,
        TopicPartition("t", 1): 6,
    }
    for content in ("t,0\n", "t,x,1\n", "t,0,1\nt,0,2\n", "", f"t,0,{2**63}\n"):
        with pytest.raises(BadText):
            read_plan(content)


def test_wrong_usage_of_reset(run: Run) -> None:
    none = run("groups", "reset", "g")
    assert none.code == 2
    assert "--to-earliest" in none.err
    two = run("groups", "reset", "g", "--to-earliest", "--to-latest")
    assert two.code == 2
    when = run("groups", "reset", "g", "--to-time", "yesterday")
    assert when.code == 2
    assert "-15m, -2h, -1d (ago)" in when.err
