"""The broker is away, stands still or has a full disk: what clients are told, and that every id is
stored once in the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.gateway_process import GatewayProcess, Reply, wait_until
from tests.gateway.records import create_topic, read_all
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, {"offsets.topic.num.partitions": 1}) as process:
        create_topic(process.bootstrap, "orders", 2)
        yield process


def test_a_broker_that_stands_still_leaves_the_outcome_unknown_and_a_repeat_settles_it(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with GatewayProcess(
        tmp_path / "gateway", broker.bootstrap, request_timeout_ms=3_000
    ) as gateway:
        gateway.put("orders", shardingKey="k", messageId="before")
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            unknown = gateway.put("orders", shardingKey="k", messageId="m")
            assert (unknown.status, unknown.json["code"]) == (504, "OUTCOME_UNKNOWN")
            assert unknown.json["messageId"] == "m"
            assert int(unknown.headers["Retry-After"]) > 0
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        settled: list[Reply] = []

        def repeat() -> bool:
            settled.append(gateway.put("orders", shardingKey="k", messageId="m"))
            return settled[-1].status == 200

        wait_until(repeat, what="an answer")
        assert settled[-1].json["duplicate"] is True
    stored = Counter(record.message_id for record in read_all(broker.bootstrap, "orders", 2))
    assert stored == {"before": 1, "m": 1}


def test_without_a_broker_nothing_is_stored_and_afterwards_it_goes_on(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with GatewayProcess(
        tmp_path / "gateway", broker.bootstrap, request_timeout_ms=2_000
    ) as gateway:
        first = gateway.put("orders", shardingKey="k", messageId="m").json
        broker.kill()
        refused = gateway.put("orders", shardingKey="k", messageId="n")
        assert (refused.status, refused.json["code"]) == (503, "LEADER_NOT_AVAILABLE")
        assert int(refused.headers["Retry-After"]) > 0
        assert gateway.call("GET", "/healthz").status == 200
        broker.start()
        wait_until(
            lambda: gateway.put("orders", shardingKey="k", messageId="n").status == 200,
            what="a put",
        )
        again = gateway.put("orders", shardingKey="k", messageId="m").json
        assert again == {**first, "duplicate": True}
    stored = Counter(record.message_id for record in read_all(broker.bootstrap, "orders", 2))
    assert stored == {"m": 1, "n": 1}


def test_a_gateway_that_starts_before_its_broker_says_so_and_waits(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        broker.kill()
        gateway = GatewayProcess(tmp_path / "gateway", broker.bootstrap, request_timeout_ms=1_000)
        gateway.port = 0
        gateway.start(waits=False)
        try:
            wait_until(lambda: "not ready" in gateway.log_path.read_text(), what="a reason")
            broker.start()
            gateway.wait_until_ready()
            assert gateway.call("GET", "/readyz").status == 200
        finally:
            assert gateway.end(signal.SIGTERM) == 0


def test_killed_brokers_and_repeats_under_load_store_every_id_once(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Clients repeat until they get 200, as they should; the broker is killed twice meanwhile."""
    done: dict[str, tuple[int, str]] = {}

    def client(number: int, gateway: GatewayProcess) -> None:
        for step in range(40):
            message_id = f"{number}-{step}"

            def put(message_id: str = message_id) -> bool:
                reply = gateway.put("orders", shardingKey=message_id, messageId=message_id)
                if reply.status != 200:
                    assert reply.status in {503, 504}, reply
                    return False
                done[message_id] = (reply.json["partition"], reply.json["queueOffset"])
                return True

            wait_until(put, seconds=60, what="a put")

    with GatewayProcess(
        tmp_path / "gateway", broker.bootstrap, request_timeout_ms=5_000
    ) as gateway:
        clients = [threading.Thread(target=client, args=(n, gateway)) for n in range(8)]
        for thread in clients:
            thread.start()
        for share in (80, 200):
            wait_until(lambda share=share: len(done) >= share, what="progress")
            broker.restart()
        for thread in clients:
            thread.join()
        assert gateway.metric("hermes_gateway_double_stores_total") == 0
    assert len(done) == 320
    stored = read_all(broker.bootstrap, "orders", 2)
    assert {r.message_id: (r.partition, str(r.offset)) for r in stored} == done
    assert len(stored) == 320


def test_too_few_replicas_in_sync_is_replica_lagging(broker: BrokerProcess, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, "copies", min_insync_replicas="2")
    with GatewayProcess(tmp_path / "gateway", broker.bootstrap) as gateway:
        reply = gateway.put("copies", messageId="m")
        assert (reply.status, reply.json["code"]) == (503, "REPLICA_LAGGING")
        assert int(reply.headers["Retry-After"]) == reply.json["retryAfterSeconds"] > 0
        assert gateway.put("copies", messageId="m", ackMode="1").status == 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB of its own."""
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(mount)], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_low_space_is_507_that_says_so_and_what_to_do_and_heals(
    small_disk: Path, tmp_path: Path
) -> None:
    with BrokerProcess(small_disk) as broker:
        create_topic(broker.bootstrap, "orders")
        with GatewayProcess(tmp_path / "gateway", broker.bootstrap) as gateway:
            first = gateway.put("orders", messageId="m").json
            filler = small_disk / "filler"
            with filler.open("wb") as file:
                file.write(bytes(max(0, shutil.disk_usage(small_disk).free - 3_000_000)))
            body = "A" * 400_000
            for number in range(40):
                refused = gateway.put("orders", messageId=f"big-{number}", body=body)
                if refused.status != 200:
                    break
            assert (refused.status, refused.json["code"]) == (507, "DISK_FULL")
            assert int(refused.headers["Retry-After"]) > 0
            assert refused.json["title"] == "The broker's disk has too little room, or failed"
            assert "MB below which no records are taken: free space" in refused.json["detail"]
            assert gateway.fetch("orders", 0, 0, maxMessages=1).status == 200
            filler.unlink()
            wait_until(
                lambda: gateway.put("orders", messageId=f"big-{number}", body=body).status == 200,
                what="a put",
            )
            again = gateway.put("orders", messageId="m").json
            assert again == {**first, "duplicate": True}
        ids = Counter(record.message_id for record in read_all(broker.bootstrap, "orders"))
        assert ids == {"m": 1, **{f"big-{n}": 1 for n in range(number + 1)}}
