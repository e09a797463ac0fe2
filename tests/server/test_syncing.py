"""Sync rounds of a real broker: what is synced how, before which answer; what a failure ends."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.config.alter import AlterOperation
from broker.errors import ErrorCode
from broker.log.names import SYNC_FAILED
from broker.model import INT64_MAX
from broker.wire import api
from broker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker_process import BrokerProcess
from tests.support.file_systems import where_syncfs_is_used
from tests.support.wire_client import WireClient

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v" * 100)]
NEVER = str(INT64_MAX)
SYNCS = "fdatasync,fsync,syncfs"
ANSWERS = "sendto,sendmsg,write,writev"
MANY = 12
"""More partitions than are synced file by file."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("syncing")) as process:
        yield process


@contextmanager
def traced(broker: BrokerProcess, output: Path, *options: str) -> Iterator[None]:
    """While inside, strace sees the calls of every thread."""
    command = ("strace", "-f", "-qq", "-ttt", "-T", "-y", "-p", str(broker.pid), "-o", str(output))
    tracer = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)
    try:
        status = Path(f"/proc/{broker.pid}/status")
        ends = time.monotonic() + 20
        while "TracerPid:\t0\n" in status.read_text():
            assert time.monotonic() < ends, "strace does not attach"
            time.sleep(0.05)
        time.sleep(0.3)  # the other threads
        yield
    finally:
        tracer.terminate()
        tracer.wait(20)


def calls_of(output: Path) -> list[tuple[str, str]]:
    """(call, descriptor's name), in the order of their ends."""
    found: list[tuple[float, str, str]] = []
    pending: dict[str, tuple[str, str]] = {}
    for line in output.read_text(errors="replace").splitlines():
        call = re.match(r"^\d+ +(\d+\.\d+) (\w+)\(\d+<([^>]*)>.*<([\d.]+)>$", line)
        if call is not None:
            found.append((float(call[1]) + float(call[4]), call[2], call[3]))
        else:
            begun = re.match(r"^(\d+) +\d+\.\d+ (\w+)\(\d+<([^>]*)> *<unfinished", line)
            if begun is not None:
                pending[begun[1]] = (begun[2], begun[3])
            resumed = re.match(r"^(\d+) +(\d+\.\d+) <\.\.\. \w+ resumed>", line)
            if resumed is not None and resumed[1] in pending:
                found.append((float(resumed[2]), *pending.pop(resumed[1])))
    return [(name, path) for _, name, path in sorted(found)]


def samples(broker: BrokerProcess, name: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{broker.metrics_url}/metrics", timeout=10) as response:
        text = response.read().decode()
    found = re.findall(rf'^{name}(?:{{way="(\w+)"}})? (\S+)$', text, re.MULTILINE)
    return {way: float(value) for way, value in found}


def alter(client: WireClient, topic: str, **settings: str) -> None:
    changes = [
        AlterableConfig(
            name=name.replace("_", "."), config_operation=AlterOperation.SET, value=value
        )
        for name, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = client.call(api.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert answer.error_code == 0, answer.error_message


def shown(client: WireClient, topic: str, name: str) -> tuple[str | None, int, list[str]]:
    """(value, source, names of the synonyms)."""
    wanted = DescribeConfigsResource(
        resource_type=2, resource_name=topic, configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True)
    (config,) = client.call(api.DESCRIBE_CONFIGS, 4, request).results[0].configs
    return config.value, config.config_source, [each.name for each in config.synonyms]


def produce_to_all(client: WireClient, topic: str, partitions: Sequence[int]) -> list[int]:
    """The error codes of one batch to each, sent before any answer is awaited."""
    for partition in partitions:
        client.send_batch(topic, RECORDS, partition=partition)
    answers = [client.receive() for _ in partitions]
    return [answer.responses[0].partition_responses[0].error_code for answer in answers]


@pytest.mark.apt("strace")
@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_leaves_after_the_sync_of_what_was_written(tmp_path: Path, acks: int) -> None:
    output = tmp_path / "calls"
    with BrokerProcess(tmp_path) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("t")
        assert client.produce("t", RECORDS, acks=acks).error_code == 0
        with traced(broker, output, "-e", f"trace=pwrite64,pwritev,{SYNCS},{ANSWERS}"):
            assert client.produce("t", RECORDS, acks=acks).error_code == 0
    calls = calls_of(output)
    written = next(i for i, (name, path) in enumerate(calls) if path.endswith(".log"))
    synced = next(i for i, (name, path) in enumerate(calls) if name == "fdatasync")
    answered = next(i for i, (_, path) in enumerate(calls) if path.startswith(("TCP", "socket")))
    assert calls[synced][1] == calls[written][1], "the file that was written to"
    assert written < synced < answered


@pytest.mark.apt("strace")
@pytest.mark.parametrize("acks", [1, -1])
def test_nobody_waits_for_a_disk_where_durability_is_replicated(tmp_path: Path, acks: int) -> None:
    output = tmp_path / "calls"
    with BrokerProcess(tmp_path) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("t", durability="replicated")
        assert client.produce("t", RECORDS, acks=acks).error_code == 0
        with traced(broker, output, "-e", f"trace=pwrite64,pwritev,{SYNCS},{ANSWERS}"):
            for _ in range(20):
                assert client.produce("t", RECORDS, acks=acks).error_code == 0
        assert samples(broker, "hermes_sync_rounds_total") == {}
    calls = calls_of(output)
    assert sum(path.endswith(".log") and name.startswith("pw") for name, path in calls) == 20
    assert [name for name, _path in calls if name in SYNCS] == []


def test_requests_that_come_together_share_a_round(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        client.create_topic("together")
        assert client.produce("together", RECORDS).error_code == 0
        before = samples(broker, "hermes_sync_rounds_total")["direct"]
        assert produce_to_all(client, "together", [0] * 200) == [0] * 200
        assert 1 <= samples(broker, "hermes_sync_rounds_total")["direct"] - before <= 100
        assert samples(broker, "hermes_unsynced_bytes") == {"": 0}


def test_many_partitions_are_synced_by_one_call(tmp_path: Path) -> None:
    with (
        where_syncfs_is_used(tmp_path) as directory,
        BrokerProcess(directory) as broker,
        WireClient(broker.kafka_port) as client,
    ):
        client.create_topic("many", MANY)
        for _ in range(10):
            assert produce_to_all(client, "many", range(MANY)) == [0] * MANY
        rounds = samples(broker, "hermes_sync_rounds_total")["syncfs"]
        assert samples(broker, "hermes_synced_files_total")["syncfs"] / rounds > 4


@pytest.mark.apt("strace")
def test_the_first_error_of_a_sync_takes_its_partition_offline_and_is_not_retried(
    tmp_path: Path,
) -> None:
    output = tmp_path / "calls"
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client, WireClient(broker.kafka_port) as reader:
            client.create_topic("t", 2)
            assert produce_to_all(client, "t", [0, 1]) == [0, 0]
            (log,) = (broker.data / "topics" / "t" / "partition-00").glob("*.log")
            fail = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1")
            with traced(broker, output, "-P", str(log), *fail):
                reader.send_fetch("t", 1, max_wait_ms=30_000)
                refused = client.produce("t", RECORDS, partition=0)
                assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                waiting = reader.receive().responses[0].partitions[0]
                assert waiting.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "who waits is told"
                again = client.produce("t", RECORDS, partition=0)
                assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert client.produce("t", RECORDS, partition=1).error_code == 0
            assert len(re.findall(r"fdatasync\(", output.read_text())) == 1, "never retried"
        assert log.with_name(SYNC_FAILED).exists()
        broker.terminate()
        broker.start()
        assert not log.with_name(SYNC_FAILED).exists()
        with WireClient(broker.kafka_port) as client:
            assert client.produce("t", RECORDS, partition=0).error_code == 0
            assert client.fetch("t", 0, partition=0).high_watermark == 3, "what was written is kept"


@pytest.mark.apt("strace")
def test_an_error_of_syncfs_takes_every_partition_of_its_round_offline(tmp_path: Path) -> None:
    with (
        where_syncfs_is_used(tmp_path) as directory,
        BrokerProcess(directory) as broker,
        WireClient(broker.kafka_port) as client,
    ):
        client.create_topic("t", MANY)
        client.create_topic("other", durability="replicated")
        assert produce_to_all(client, "t", range(MANY)) == [0] * MANY
        fail = ("-e", "trace=syncfs", "-e", "inject=syncfs:error=EIO:when=1")
        codes: list[int] = []
        with traced(broker, tmp_path / "calls", *fail):
            deadline = time.monotonic() + 20
            while not any(codes) and time.monotonic() < deadline:
                codes = produce_to_all(client, "t", range(MANY))
        assert codes.count(ErrorCode.KAFKA_STORAGE_ERROR) > 4
        assert set(codes) <= {0, ErrorCode.KAFKA_STORAGE_ERROR}
        assert produce_to_all(client, "t", range(MANY)) == codes, "and they stay offline"
        assert client.produce("other", RECORDS).error_code == 0


def test_durability_is_changed_while_the_topic_serves(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        client.create_topic("changed", durability="replicated")
        before = samples(broker, "hermes_sync_rounds_total")
        for _ in range(3):
            assert client.produce("changed", RECORDS).error_code == 0
        assert samples(broker, "hermes_sync_rounds_total") == before
        alter(client, "changed", flush_messages="1")
        deadline = time.monotonic() + 20
        while samples(broker, "hermes_sync_rounds_total") == before:
            assert time.monotonic() < deadline, "what was written before is synced"
            time.sleep(0.05)
        assert client.fetch("changed", 0).high_watermark == 3, "what was visible stays visible"
        assert client.produce("changed", RECORDS).base_offset == 3
        rounds = samples(broker, "hermes_sync_rounds_total")
        alter(client, "changed", durability="replicated")
        assert client.produce("changed", RECORDS).base_offset == 4
        assert samples(broker, "hermes_sync_rounds_total") == rounds


def test_both_words_for_durability_are_shown_as_one_setting(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        client.create_topic("t", flush_messages="1")
        assert shown(client, "t", "durability") == ("fsync", 1, ["durability", "hermes.durability"])
        synonyms = ["flush.messages", "log.flush.interval.messages"]
        assert shown(client, "t", "flush.messages") == ("1", 1, synonyms)
        alter(client, "t", durability="replicated")
        assert shown(client, "t", "flush.messages") == (NEVER, 1, synonyms)
        client.create_topic("u")
        assert shown(client, "u", "flush.messages") == ("1", 5, synonyms[1:])
        assert shown(client, "u", "durability") == ("fsync", 5, ["hermes.durability"])


def test_topics_that_name_no_durability_follow_the_brokers(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"hermes.durability": "replicated"}) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("t")
            assert client.produce("t", RECORDS).error_code == 0
            assert samples(broker, "hermes_sync_rounds_total") == {}
        broker.terminate()
        broker.settings = {}
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert client.produce("t", RECORDS).error_code == 0
            assert samples(broker, "hermes_sync_rounds_total")["direct"] >= 1
