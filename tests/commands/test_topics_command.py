"""hermes topics, against ours and Apache Kafka."""

from __future__ import annotations

import pytest

from broker.client.blocking import EARLIEST, BlockingClient, TopicPartition
from tests.commands.conftest import Run, eventually

COUNTS = ("expired", "visible", "delayed")


def test_a_topic_is_created_listed_described_and_deleted(
    run: Run, client: BlockingClient, name: str
) -> None:
    made = run(
        "topics", "create", name, "-p", "3", "-r", "1", "--set", "retention.ms=9007199254740993"
    )
    assert (made.code, made.out) == (0, f"topic '{name}' created: 3 partitions, 1 replica each\n")
    eventually(lambda: name in [view.name for view in client.list_topics()])
    listed = run("topics", "list", f"{name[:-1]}*")
    assert listed.out.splitlines()[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS", "STATE"]
    assert f"{name}           3         1  ok" in listed.out
    assert run("topics", "list", name, "--quiet").out == f"{name}\n"
    (item,) = run("topics", "list", name, "--json").items
    assert (item["partitions"], item["replicas"], item["is_internal"]) == (3, 1, False)
    described = run("topics", "describe", name, "--json").item
    assert described["configs"] == {"retention.ms": "9007199254740993"}
    assert [row["end_offset"] for row in described["partitions"]] == ["0", "0", "0"]
    assert run("topics", "delete", name, "--yes").out == f"topic '{name}' deleted\n"
    eventually(lambda: name not in [view.name for view in client.list_topics()])


def test_what_exists_is_refused_and_may_be_fine(run: Run, topic: str) -> None:
    again = run("topics", "create", topic, "-p", "2")
    assert again.code == 1
    assert again.out == ""
    assert "--if-not-exists" in again.err
    fine = run("topics", "create", topic, f"{topic}-b", "-p", "2", "--if-not-exists", "--json")
    assert fine.code == 0
    assert [item["outcome"] for item in fine.items] == ["exists", "created"]


def test_trying_creates_nothing(run: Run, client: BlockingClient, name: str) -> None:
    tried = run("topics", "create", name, "-p", "4", "--dry-run")
    assert tried.out == f"topic '{name}' would be created: 4 partitions, 1 replica each\n"
    assert name not in [view.name for view in client.list_topics()]
    refused = run("topics", "create", name, "--set", "retention.ms=soon", "--dry-run", "--json")
    assert refused.code == 1
    assert '"code": "INVALID_CONFIG"' in refused.out


def test_an_unknown_topic_gets_the_nearest_name(run: Run, topic: str) -> None:
    wrong = topic.replace("test", "tset")
    for words in (
        ("describe", wrong),
        ("alter", wrong, "--set", "retention.ms=1"),
        ("grow", wrong, "-p", "9"),
        ("delete", wrong, "--yes"),
        ("delete-records", wrong, "--all", "--yes"),
    ):
        refused = run("topics", *words)
        assert refused.code == 1
        assert f"there is no topic '{wrong}'. Did you mean '{topic}'" in refused.err


def knows_windows(client: BlockingClient, topic: str) -> bool:
    """Apache Kafka has no such settings."""
    return "delivery.delay.ms" in client.topic_configs([topic])[topic]


def test_a_topic_with_a_delivery_window_shows_what_is_hidden(
    run: Run, client: BlockingClient, topic: str
) -> None:
    settings = {"message.timestamp.type": "LogAppendTime", "delivery.ttl.ms": "1500"}
    if not knows_windows(client, topic):
        assert "EXPIRED" not in run("topics", "describe", topic).out
        return
    client.alter_topic_config(topic, settings)
    where = TopicPartition(topic, 0)
    for value in (b"a", b"b", b"c"):
        client.produce(topic, value, partition=0)
    eventually(lambda: client.offsets({where: EARLIEST})[where].offset == 3)
    first, second = run("topics", "describe", topic, "--json").item["partitions"]
    assert [first[f"{name}_records"] for name in COUNTS] == ["3", "0", "0"]
    assert [second[f"{name}_records"] for name in COUNTS] == ["0", "0", "0"]
    assert (first["start_offset"], first["end_offset"]) == ("3", "3")
    client.alter_topic_config(topic, {"delivery.ttl.ms": "7200000", "delivery.delay.ms": "3600000"})
    client.produce(topic, b"d", partition=0)
    first, _ = run("topics", "describe", topic, "--json").item["partitions"]
    assert [first[f"{name}_records"] for name in COUNTS] == ["0", "3", "1"]
    shown = run("topics", "describe", topic).out
    assert "delayed     1 (not due yet)" in shown
    assert "expired     0 (still stored)" in shown
    heading = next(line for line in shown.splitlines() if line.startswith("PARTITION"))
    assert heading.split()[-4:] == ["EXPIRED", "VISIBLE", "DELAYED", "SIZE"]


def test_a_topic_without_a_window_shows_no_such_columns(run: Run, topic: str) -> None:
    item = run("topics", "describe", topic, "--json").item
    assert "delayed_records" not in item["partitions"][0]
    assert "DELAYED" not in run("topics", "describe", topic).out


def test_a_topic_shows_what_an_acknowledgement_means_and_how_closely_records_are_checked(
    run: Run, client: BlockingClient, topic: str
) -> None:
    def shown() -> tuple[str | None, str | None]:
        item = run("topics", "describe", topic, "--json").item
        return item["durability"], item["record_validation"]

    if "durability" not in client.topic_configs([topic])[topic]:  # Apache Kafka
        assert shown() == (None, None)
        assert "durability" not in run("topics", "describe", topic).out
        return
    assert shown() == ("fsync", "header")
    lines = run("topics", "describe", topic).out.splitlines()
    assert "durability  fsync (default): on disk before it is acknowledged and seen" in lines
    assert "validation  header (default): batches are checked, not the records in them" in lines
    client.alter_topic_config(topic, {"durability": "replicated", "record.validation": "full"})
    eventually(lambda: shown() == ("replicated", "full"))
    changed = run("topics", "describe", topic).out
    assert "durability  replicated (set here): acknowledged before it is on disk" in changed
    assert "validation  full (set here): every record is checked" in changed


def test_of_several_topics_the_others_are_described(run: Run, topic: str) -> None:
    both = run("topics", "describe", topic, f"{topic}-none", "--json")
    assert both.code == 1
    assert both.item["topic"] == topic
    assert f"{topic}-none" in both.err


def test_records_of_a_compacted_topic_are_told_as_an_estimate(
    run: Run, client: BlockingClient, topic: str
) -> None:
    client.alter_topic_config(topic, {"cleanup.policy": "compact"})
    for number in range(3):
        client.produce(topic, b"%d" % number, key=b"same", partition=0)
    eventually(lambda: run("topics", "describe", topic, "--json").item["is_record_count_estimated"])
    shown = run("topics", "describe", topic).out
    assert "records     3 at most (estimated: compaction leaves gaps between offsets)" in shown
    heading = next(line for line in shown.splitlines() if line.startswith("PARTITION"))
    assert "RECORDS AT MOST" in heading


def test_settings_change_and_show_before_and_after(
    run: Run, client: BlockingClient, topic: str
) -> None:
    first = run("topics", "alter", topic, "--set", "max.message.bytes=2000000", "--json")
    assert first.item["after"] == "2000000"

    def value(setting: str) -> str | None:
        return client.topic_configs([topic])[topic][setting].value

    eventually(lambda: value("max.message.bytes") == "2000000")
    more = run(
        *("topics", "alter", topic, "--unset", "max.message.bytes"),
        *("--append", "cleanup.policy=compact", "--json"),
    )
    rows = {item["setting"]: (item["before"], item["after"]) for item in more.items}
    assert rows["cleanup.policy"] == ("delete", "delete,compact")
    assert rows["max.message.bytes"][0] == "2000000"
    eventually(lambda: value("cleanup.policy") == "delete,compact")
    less = run("topics", "alter", topic, "--subtract", "cleanup.policy=delete")
    assert "delete,compact  compact" in less.out
    assert run("topics", "alter", topic).code == 1
    wrong = run("topics", "alter", topic, "--set", "max.mesage.bytes=1")
    assert wrong.code == 1
    assert "max.message.bytes" in wrong.err


def test_growing_warns_and_wants_consent(run: Run, client: BlockingClient, topic: str) -> None:
    def count() -> int:
        return len(client.describe_topic(topic).partitions)

    asked = run("topics", "grow", topic, "-p", "8")
    assert asked.code == 1
    assert "75 % of the keys move" in asked.err
    assert "--yes" in asked.err
    assert count() == 2
    assert run("topics", "grow", topic, "-p", "8", "--dry-run").out.endswith(
        "from 2 to 8 partitions\n"
    )
    assert count() == 2
    assert run("topics", "grow", topic, "-p", "8", "--yes").code == 0
    eventually(lambda: count() == 8)
    assert "cannot be taken away" in run("topics", "grow", topic, "-p", "8", "--yes").err


def test_deleting_shows_what_is_lost_and_wants_consent(
    run: Run, client: BlockingClient, topic: str
) -> None:
    client.produce(topic, b"v", partition=0)
    client.set_committed_offsets(f"{topic}-group", {TopicPartition(topic, 0): 1})
    asked = run("topics", "delete", topic)
    assert asked.code == 1
    assert f"topic '{topic}': 2 partitions, 1 record, " in asked.err
    assert f"read by group '{topic}-group': no members now" in asked.err
    assert "--yes" in asked.err
    assert client.describe_topic(topic).name == topic


def test_oldest_records_are_deleted(run: Run, client: BlockingClient, topic: str) -> None:
    for number in range(10):
        client.produce(topic, b"v", partition=0, timestamp_ms=1_000 + number)
    where = TopicPartition(topic, 0)

    def start() -> int:
        return client.offsets({where: EARLIEST})[where].offset

    assert run("topics", "delete-records", topic, "--partitions", "0", "--before", "3").code == 1
    assert start() == 0
    done = run(
        "topics", "delete-records", topic, "--partitions", "0", "--before", "3", "--yes", "--json"
    )
    assert done.item["start_offset"] == "3"
    run("topics", "delete-records", topic, "--before-time", "1006", "--yes")
    assert start() == 6
    described = run("topics", "describe", topic, "--json").item
    assert [row["records"] for row in described["partitions"]] == ["4", "0"]
    assert not described["is_record_count_estimated"]
    assert "\nrecords     4\n" in run("topics", "describe", topic).out
    never = "1969-12-31T23:59:59.999Z"  # as a number -1, which asks for the end
    nothing = run("topics", "delete-records", topic, "--before-time", never, "--yes")
    assert "nothing to delete" in nothing.out
    again = run("topics", "delete-records", topic, "--before-time", "1006", "--yes")
    assert again.out == "nothing to delete: no record is that old\n"
    assert (
        "no offset 11 yet" in run("topics", "delete-records", topic, "--before", "11", "--yes").err
    )
    assert run("topics", "delete-records", topic, "--all", "--yes").code == 0
    assert start() == 10


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("delete-records T", "--before --before-time --all is required"),
        ("delete-records T --before 1 --all", "not allowed with"),
        ("delete-records T --before x", "not an offset: 'x'"),
        ("create", "TOPIC is missing"),
        ("create T -p 0", "not a number from 1 on: '0'"),
        ("create T --set retention", "not a setting: 'retention'"),
        ("list a b", "there is no further argument 'b' here"),
        ("list --intrnal", "Did you mean '--internal'?"),
        ("lst", "Did you mean 'list'?"),
        ("", "which one? list, describe, create"),
    ],
)
def test_wrong_usage_says_what_to_do(run: Run, words: str, wanted: str) -> None:
    refused = run("topics", *words.split())
    assert (refused.code, refused.out) == (2, "")
    assert wanted in refused.err
    assert "--help" in refused.err
