"""hermes produce and consume, against ours and Apache Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from broker.client.blocking import BlockingClient, ConsumedRecord, TopicPartition
from broker.client.partitioner import murmur2_partition
from tests.commands.conftest import Outcome, Run


def stored(client: BlockingClient, topic: str) -> list[ConsumedRecord]:
    """All records, partition by partition."""
    return [
        record
        for partition in (0, 1)
        for record in client.read(topic, partition, 0, count_max=10_000, wait_ms=0)
    ]


def test_values_come_from_arguments(run: Run, client: BlockingClient, topic: str) -> None:
    sent = run("produce", topic, "first", "second", "-k", "order-7", "-H", "a=1", "-H", "null")
    assert (sent.code, sent.out) == (0, "")
    partition = murmur2_partition(b"order-7", 2)
    assert sent.err == f"2 records stored in {topic}: partition {partition} (0 to 1)\n"
    rows = stored(client, topic)
    assert [(row.key, row.value, row.partition) for row in rows] == [
        (b"order-7", b"first", partition),
        (b"order-7", b"second", partition),
    ]
    assert rows[0].headers == (("a", b"1"), ("null", None))


def test_lines_have_keys_that_land_where_java_puts_them(
    run_process: Run, client: BlockingClient, topic: str
) -> None:
    lines = "".join(f"key-{number}:value:{number}\n" for number in range(200))
    sent = run_process("produce", topic, "-K", ":", "-z", "zstd", "--json", stdin=lines)
    assert sent.code == 0
    assert sum(int(item["count"]) for item in sent.items) == 200
    rows = stored(client, topic)
    assert {row.key: row.value for row in rows} == {
        b"key-%d" % number: b"value:%d" % number for number in range(200)
    }
    assert {row.partition for row in rows if row.key == b"key-3"} == {
        murmur2_partition(b"key-3", 2)
    }
    assert all(murmur2_partition(row.key or b"", 2) == row.partition for row in rows)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_understood_in_batches_of_many_blocks(
    run_process: Run, topic: str, codec: str
) -> None:
    lines = [f"{number} {'abcdefgh' * 120}" for number in range(500)]
    sent = run_process("produce", topic, "-p", "0", "-z", codec, stdin="\n".join(lines))
    assert (sent.code, "500 records stored" in sent.err) == (0, True)
    read = run_process("consume", f"{topic}:0", "--exit")
    assert read.out.splitlines() == lines


def test_null_and_empty_are_told_apart(
    run_process: Run, client: BlockingClient, topic: str
) -> None:
    words = ("produce", topic, "-p", "1", "-K", "|", "-Z", "<null>")
    run_process(*words, stdin="k|<null>\nk|\n|v\n<null>|v\n")
    rows = [(row.key, row.value) for row in stored(client, topic)]
    assert rows == [(b"k", None), (b"k", b""), (b"", b"v"), (None, b"v")]
    shown = run_process("consume", topic, "--exit", "-f", "%k=%s(%S)\\n", "-Z", "~")
    assert shown.out == "k=~(-1)\nk=(0)\n=v(1)\n~=v(1)\n"
    assert [row["value"] for row in run_process("consume", topic, "-e", "--json").lines] == [
        *(None, "", "v", "v")
    ]


def test_whole_input_and_other_delimiters(
    run_process: Run, client: BlockingClient, topic: str
) -> None:
    run_process("produce", topic, "-p", "0", "--format", "whole", stdin=b"a\nb\n\xff")
    run_process("produce", topic, "-p", "0", "-D", "\\0", stdin=b"one\0two\0three")
    values = [row.value for row in stored(client, topic)]
    assert values == [b"a\nb\n\xff", b"one", b"two", b"three"]


def test_a_copy_by_json_keeps_all_but_the_place(
    run_process: Run, client: BlockingClient, topic: str, name: str
) -> None:
    copy = f"{topic}-copy"
    client.create_topic(copy, partition_count=2, replication_factor=1)
    client.produce(topic, b"\xff\x00", key=b"\xfe", headers=[("h", b"\xfd"), ("n", None)])
    client.produce(topic, None, key="schlüssel".encode(), timestamp_ms=1_234)
    client.produce(topic, b"")
    first = run_process("consume", topic, "--exit", "--json")
    assert first.code == 0
    assert {"key_base64", "value_base64"} <= first.lines[
        [line.get("key_base64") for line in first.lines].index("/g==")
    ].keys()
    copied = run_process("produce", copy, "--format", "json", stdin=first.out)
    assert copied.code == 0
    wanted = {row[3:] for row in stored(client, topic)}
    assert {row[3:] for row in stored(client, copy)} == wanted
    assert all(isinstance(line["offset"], str) for line in first.lines)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "line 2 is not an object"),
        ('{"key": "k"}', "line 2 has no value"),
        ('{"value": {"a": 1}}', "value is dict, not text or null"),
        ('{"value_base64": "%"}', "value_base64 is not base64"),
        ('{"value": "v", "headers": {"a": "b"}}', "headers are a list of objects"),
        ('{"value": "v", "timestamp_ms": "soon"}', "not milliseconds since 1970"),
    ],
)
def test_bad_json_names_its_line_and_ends_the_input(
    run_process: Run, client: BlockingClient, topic: str, line: str, wanted: str
) -> None:
    lines = f'{{"value": "good"}}\n{line}\n{{"value": "later"}}\n'
    sent = run_process("produce", topic, "-p", "0", "--format", "json", stdin=lines)
    assert sent.code == 1
    assert wanted in sent.err
    assert "1 record stored" in sent.err
    assert [row.value for row in stored(client, topic)] == [b"good"]


def test_what_cannot_be_sent_is_refused(run: Run, run_process: Run, topic: str) -> None:
    assert "no partition" not in run("produce", topic, "v", "-p", "1").err
    beyond = run("produce", topic, "v", "-p", "9")
    assert beyond.code == 1
    assert "it has 2 partitions" in beyond.err
    unknown = run("produce", f"{topic}-none", "v")
    assert unknown.code == 1
    assert "there is no topic" in unknown.err
    keyless = run_process("produce", topic, "-K", "\\t", stdin="k\tv\nw\n")
    assert keyless.code == 1
    assert "line 2 has no '\\t'" in keyless.err
    large = run_process("produce", topic, "--format", "whole", stdin=bytes(2_000_000))
    assert large.code == 1
    assert "max.message.bytes" in large.err


def test_acks_and_verbose(run: Run, topic: str) -> None:
    seen = run("produce", topic, "v", "w", "-p", "1", "--acks", "1", "--verbose")
    assert seen.out == f"{topic} 1 0\n{topic} 1 1\n"
    unseen = run("produce", topic, "x", "-p", "1", "--acks", "0")
    assert (unseen.code, unseen.err) == (0, f"1 record sent in {topic}: partition 1\n")


@pytest.fixture
def ten(client: BlockingClient, topic: str) -> str:
    """Ten records, a second apart, in partition 0, and one in 1."""
    for number in range(10):
        client.produce(
            topic,
            b"value-%d" % number,
            key=b"even" if number % 2 == 0 else b"odd",
            partition=0,
            timestamp_ms=1_000_000 + number * 1_000,
            headers=[("trace", b"t%d" % number)],
        )
    client.produce(topic, b"other", partition=1, timestamp_ms=1_000_000)
    return topic


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--from", "start"], range(10)),
        (["--from", "7"], range(7, 10)),
        (["--from=-2"], range(8, 10)),
        (["--from", "-2"], range(8, 10)),
        (["--from", "end"], range(0)),
        (["--from", "99"], range(0)),
        (["--from", "@1003500"], range(4, 10)),
        (["--from", "@1970-01-01T00:16:46Z"], range(6, 10)),
        (["--until", "1003000"], range(3)),
        (["-n", "4"], range(4)),
        (["--key", "even"], range(0, 10, 2)),
        (["--grep", "ue-4"], range(4, 5)),
        (["--grep", "t7"], range(7, 8)),
        (["--key", "none"], range(0)),
    ],
)
def test_reading_begins_and_ends_where_it_should(
    run: Run, ten: str, words: list[str], wanted: range
) -> None:
    read = run("consume", f"{ten}:0", "--exit", *words, "--json")
    assert read.code == 0
    assert [int(line["offset"]) for line in read.lines] == list(wanted)


def test_formats(run: Run, ten: str) -> None:
    def one(form: str) -> str:
        return run("consume", f"{ten}:0", "--from", "3", "-n", "1", "-f", form).out

    assert one("value") == "value-3\n"
    assert one("line") == "0 3 1970-01-01T00:16:43.000Z odd value-3\n"
    assert one("%t/%p/%o\\t%T %h %%|%S\\n") == f"{ten}/0/3\t1003000 trace=t3 %|7\n"
    refused = run("consume", ten, "-f", "%q")
    assert refused.code == 1
    assert "unknown %q" in refused.err


def test_all_partitions_are_read(run: Run, ten: str) -> None:
    read = run("consume", ten, "--exit")
    assert sorted(read.out.split()) == sorted([f"value-{n}" for n in range(10)] + ["other"])


def test_a_group_gets_what_it_has_not_seen_and_commits_what_was_printed(
    run: Run, client: BlockingClient, ten: str
) -> None:
    first = run("consume", ten, "--group", ten, "-n", "4", "--json")
    assert len(first.lines) == 4
    rest = run("consume", ten, "--group", ten, "--exit", "--json")
    seen = [(line["partition"], line["offset"]) for line in (*first.lines, *rest.lines)]
    assert sorted(seen) == [(0, str(number)) for number in range(10)] + [(1, "0")]
    committed = client.committed_offsets([ten])[ten]
    assert isinstance(committed, dict)
    assert {where.partition: row.offset for where, row in committed.items()} == {0: 10, 1: 1}
    assert run("consume", ten, "--group", ten, "--exit").out == ""
    for words in (["--grep", "x"], ["--key", "x"], ["--until", "1"]):
        assert run("consume", ten, "--group", ten, *words).code == 1
    assert run("consume", f"{ten}:0", "--group", ten).code == 1
    assert run("consume", ten, "--group", ten, "--from", "start").code == 2


def test_following_prints_what_comes(
    environment: dict[str, str], client: BlockingClient, topic: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "broker", "consume", topic, "-n", "3", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
    ) as reader:
        assert reader.stdout is not None
        for number in range(3):
            client.produce(topic, b"%d" % number, partition=0)
            assert json.loads(reader.stdout.readline())["value"] == str(number)
        assert reader.wait(20) == 0


def test_records_that_were_deleted_are_passed(run: Run, client: BlockingClient, ten: str) -> None:
    client.delete_records({TopicPartition(ten, 0): 6})
    assert run("consume", f"{ten}:0", "--from", "2", "--exit").out.split() == [
        f"value-{number}" for number in range(6, 10)
    ]


def test_a_terminal_is_not_steered_by_values(
    environment: dict[str, str], client: BlockingClient, topic: str
) -> None:
    client.produce(topic, b"red \x1b[31m bell \x07 \xc2\x9b tab\t \xc3\xbc", partition=0)
    shown = in_terminal(environment, "consume", topic, "-n", "1")
    assert shown.out == "red .[31m bell . . tab\t ü\r\n"


def in_terminal(environment: dict[str, str], *words: str) -> Outcome:
    """Runs `hermes` words with standard output on a terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "broker", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        shown = b""
        while chunk := read_terminal(ours):
            shown += chunk
        os.close(ours)
        assert process.stderr is not None
        err = process.stderr.read().decode()
    return Outcome(process.returncode, shown.decode(), err)


def read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other side has gone
        return b""
