"""The tools that write, read, count and delete records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.tools.groups import committed, now_ms, write
from tests.conformance.tools.java_tools import JavaTools, write_file

NewTopic = Callable[[int], str]
Unused = Callable[[], str]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_console_consumer_prints_what_the_console_producer_sent(
    tools: JavaTools, new_topic: NewTopic, compression: str
) -> None:
    topic = new_topic(1)
    tools.ok(
        "kafka-console-producer",
        *("--topic", topic, "--compression-codec", compression),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        text="h1:x,h2:y\tkey-1\tvalue 1\nh1:z\tkey-2\tløv\n",
    )
    ran = tools.ok(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "2"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *(
            "--formatter-property",
            "print.offset=true",
            "--formatter-property",
            "print.partition=true",
        ),
    )
    assert ran.lines == [
        "Partition:0\tOffset:0\th1:x,h2:y\tkey-1\tvalue 1",
        "Partition:0\tOffset:1\th1:z\tkey-2\tløv",
    ]


def test_a_console_consumer_in_a_group_goes_on_where_it_stopped(
    tools: JavaTools, new_topic: NewTopic, unused: Unused, bootstrap: str
) -> None:
    topic, group = new_topic(1), unused()
    write(bootstrap, topic, [now_ms()] * 6)

    def read(count: int) -> list[str]:
        return tools.ok(
            "kafka-console-consumer",
            *("--topic", topic, "--group", group, "--from-beginning"),
            *("--max-messages", str(count)),
        ).lines

    assert read(4) == ["v0", "v1", "v2", "v3"]
    assert committed(bootstrap, group, [(topic, 0)]) == [4]
    assert read(2) == ["v4", "v5"]


def test_a_console_consumer_reads_one_partition_from_an_offset(
    tools: JavaTools, new_topic: NewTopic, bootstrap: str
) -> None:
    topic = new_topic(2)
    write(bootstrap, topic, [now_ms()] * 5, partition=1)
    ran = tools.ok(
        "kafka-console-consumer",
        *("--topic", topic, "--partition", "1", "--offset", "3", "--max-messages", "2"),
    )
    assert ran.lines == ["v3", "v4"]
    late = tools.run(
        "kafka-console-consumer",
        *("--topic", topic, "--partition", "1", "--offset", "latest", "--timeout-ms", "1500"),
    )
    assert "TimeoutException" in late.said or late.lines == []


SPLIT = "{split}"
TIMES: dict[str, tuple[str, str]] = {
    "latest": ("5", "0"),
    "-1": ("5", "0"),
    "earliest": ("2", "0"),
    "-2": ("2", "0"),
    "max-timestamp": ("3", ""),
    "-3": ("3", ""),
    "earliest-local": ("2", "0"),
    "-4": ("2", "0"),
    "latest-tiered": ("", ""),
    "-5": ("", ""),
    "earliest-pending-upload": ("", ""),
    "-6": ("", ""),
    SPLIT: ("3", ""),
    "99999999999999": ("", ""),
}


@pytest.mark.parametrize("time", TIMES)
def test_get_offsets_knows_each_special_time(
    tools: JavaTools, new_topic: NewTopic, bootstrap: str, tmp_path: Path, time: str
) -> None:
    """Record 3 of 5 is the latest in time, and the first two are deleted."""
    topic, now = new_topic(2), now_ms()
    write(bootstrap, topic, [now - 900, now - 800, now - 700, now, now - 600])
    delete(tools, tmp_path, {(topic, 0): 2})
    ran = tools.ok("kafka-get-offsets", "--topic", topic, "--time", time.format(split=now - 500))
    expected = {f"{topic}:{i}:{offset}" for i, offset in enumerate(TIMES[time]) if offset}
    assert set(ran.lines) == expected
    assert "UnsupportedVersionException" not in ran.said


def test_get_offsets_takes_patterns_and_lists_of_partitions(
    tools: JavaTools, new_topic: NewTopic, bootstrap: str
) -> None:
    topic = new_topic(3)
    write(bootstrap, topic, [now_ms()], partition=2)
    chosen = tools.ok("kafka-get-offsets", "--topic-partitions", f"{topic}:1-3")
    assert chosen.lines == [f"{topic}:1:0", f"{topic}:2:1"]
    chosen = tools.ok("kafka-get-offsets", "--topic", f"{topic[:-1]}.", "--partitions", "0,2")
    assert {f"{topic}:0:0", f"{topic}:2:1"} <= set(chosen.lines)
    assert tools.run("kafka-get-offsets", "--topic", f"no-{topic}").code == 1


def delete(tools: JavaTools, directory: Path, offsets: dict[tuple[str, int], int]) -> list[str]:
    """The lines that kafka-delete-records prints."""
    places = [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in offsets.items()
    ]
    path = write_file(directory, "delete.json", json.dumps({"version": 1, "partitions": places}))
    return tools.ok("kafka-delete-records", "--offset-json-file", path).lines


def test_deleted_records_are_gone_and_the_start_moves(
    tools: JavaTools, new_topic: NewTopic, bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        write(bootstrap, topic, [now_ms()] * 5, partition=partition)
    printed = delete(tools, tmp_path, {(topic, 0): 3, (topic, 1): -1})
    assert f"partition: {topic}-0\tlow_watermark: 3" in printed
    assert f"partition: {topic}-1\tlow_watermark: 5" in printed
    ran = tools.ok(
        "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2"
    )
    assert ran.lines == ["v3", "v4"]


def test_records_beyond_the_end_cannot_be_deleted(
    tools: JavaTools, new_topic: NewTopic, bootstrap: str, tmp_path: Path
) -> None:
    topic = new_topic(1)
    write(bootstrap, topic, [now_ms()] * 2)
    printed = delete(tools, tmp_path, {(topic, 0): 9})
    assert [line for line in printed if f"{topic}-0\terror" in line and "OffsetOutOfRange" in line]
    assert tools.ok("kafka-get-offsets", "--topic", topic, "--time", "-2").lines == [f"{topic}:0:0"]


def test_log_dirs_say_how_large_each_partition_is(
    tools: JavaTools, new_topic: NewTopic, bootstrap: str
) -> None:
    topic, other = new_topic(2), new_topic(1)
    write(bootstrap, topic, [now_ms()] * 100, partition=1)
    ran = tools.ok("kafka-log-dirs", "--describe", "--topic-list", topic)
    report = json.loads(next(line for line in ran.lines if line.startswith("{")))
    (broker,) = report["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["error"] is None
    sizes = {item["partition"]: item["size"] for item in directory["partitions"]}
    assert set(sizes) == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] == 0
    assert sizes[f"{topic}-1"] > 100 * len("v00")
    assert all(item["offsetLag"] == 0 for item in directory["partitions"])
    everything = tools.ok("kafka-log-dirs", "--describe", "--broker-list", str(broker["broker"]))
    assert f"{other}-0" in everything.out


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_perf_tests_send_and_read_every_record(
    tools: JavaTools, new_topic: NewTopic, acks: str
) -> None:
    topic = new_topic(3)
    sent = tools.ok(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "20000", "--record-size", "200"),
        *("--throughput", "-1", "--command-property", f"acks={acks}"),
    )
    assert re.search(r"^20000 records sent, .* 99\.9th\.?$", sent.out, re.MULTILINE), sent.said
    read = tools.ok(
        "kafka-consumer-perf-test",
        *("--topic", topic, "--num-records", "20000", "--timeout", "20000"),
    )
    head, values = read.lines[-2:]
    row = dict(zip(head.split(", "), values.split(", "), strict=True))
    assert int(row["data.consumed.in.nMsg"]) == 20000


def test_verifiable_clients_agree_on_every_record(
    tools: JavaTools, new_topic: NewTopic, unused: Unused, bootstrap: str
) -> None:
    topic, group = new_topic(2), unused()
    sent = events(
        tools.alone(
            "kafka-verifiable-producer",
            *("--topic", topic, "--max-messages", "500", "--acks", "-1", "--value-prefix", "7"),
        ).lines
    )
    successes = [event for event in sent if event["name"] == "producer_send_success"]
    assert len(successes) == 500
    (result,) = [event for event in sent if event["name"] == "tool_data"]
    assert (result["sent"], result["acked"]) == (500, 500)
    read = events(
        tools.alone(
            "kafka-verifiable-consumer",
            *("--topic", topic, "--group-id", group, "--max-messages", "500"),
            *("--reset-policy", "earliest", "--verbose", "--group-protocol", "classic"),
        ).lines
    )
    names = {str(event["name"]) for event in read}
    assert {"startup_complete", "partitions_assigned", "offsets_committed"} <= names
    records = [event for event in read if event["name"] == "record_data"]
    assert sorted(str(record["value"]) for record in records) == sorted(
        f"7.{i}" for i in range(500)
    )
    ends = tools.ok("kafka-get-offsets", "--topic", topic, "--time", "latest").lines
    assert sum(int(line.rpartition(":")[2]) for line in ends) == 500
    done = [max(0, offset) for offset in committed(bootstrap, group, [(topic, 0), (topic, 1)])]
    assert sum(done) == 500, "none where there was no record"


def events(lines: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines if line.startswith("{")]
