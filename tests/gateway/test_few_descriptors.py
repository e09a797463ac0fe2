"""A gateway that may open few files: clients beyond them are hung up on at once, at no cost; those
that are there are served, and others again when descriptors are back.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.gateway_process import GatewayProcess, wait_until

pytestmark = pytest.mark.apt("util-linux")

DESCRIPTORS = 96
IDLE_CLIENTS = 250
WATCHED_S = 3.0
CPU_S_MAX = 0.6
LOG_BYTES_MAX = 4_000
PREFIX = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")


@pytest.fixture
def narrow(bootstrap: str, tmp_path: Path) -> Iterator[GatewayProcess]:
    # No client is ended for being idle: only its going away gives its descriptor back.
    options = {"request_read_ms": 300_000, "access_log": "none"}
    with GatewayProcess(tmp_path, bootstrap, prefix=PREFIX, **options) as process:
        yield process


def test_without_descriptors_it_neither_spins_nor_floods_its_log_and_serves_again(
    narrow: GatewayProcess, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    kept = http.client.HTTPConnection("127.0.0.1", narrow.port, timeout=30)
    assert put(kept, topic, "first") == 200
    with idle_clients(narrow.port) as clients:
        wait_until(lambda: hung_up(clients) > 0, what="a client beyond the descriptors is hung up")
        log_before = narrow.log_path.stat().st_size
        cpu_before = cpu_s(narrow.pid)
        end = time.monotonic() + WATCHED_S
        while time.monotonic() < end:  # others keep knocking
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", narrow.port), timeout=1).close()
            time.sleep(0.05)
        assert cpu_s(narrow.pid) - cpu_before < CPU_S_MAX
        assert narrow.log_path.stat().st_size - log_before < LOG_BYTES_MAX
        assert put(kept, topic, "second") == 200, "who is there is served"
        log = narrow.log_path.read_text()
        assert "ulimit -n" in log
        assert "Traceback" not in log
    wait_until(lambda: serves(narrow, topic), what="a new client is served")
    kept.close()
    assert narrow.metric("hermes_gateway_ids") == 3


def test_clients_that_wait_for_a_descriptor_are_not_left_in_silence(
    narrow: GatewayProcess,
) -> None:
    with idle_clients(narrow.port) as clients:
        expected = IDLE_CLIENTS - DESCRIPTORS
        wait_until(lambda: hung_up(clients) >= expected, what="all beyond the limit know it")


def put(connection: http.client.HTTPConnection, topic: str, message_id: str) -> int:
    body = json.dumps({"topic": topic, "messageId": message_id, "body": None})
    connection.request(
        "PUT", "/api/v1/messages", body=body, headers={"Content-Type": "application/json"}
    )
    answer = connection.getresponse()
    answer.read()
    return answer.status


def serves(gateway: GatewayProcess, topic: str) -> bool:
    try:
        return gateway.put(topic, messageId="third").status == 200
    except OSError:
        return False


@contextlib.contextmanager
def idle_clients(port: int) -> Iterator[list[socket.socket]]:
    """More than there are descriptors for, which say nothing."""
    clients = []
    try:
        for _ in range(IDLE_CLIENTS):
            with contextlib.suppress(ConnectionError):
                clients.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        yield clients
    finally:
        for client in clients:
            client.close()


def hung_up(clients: list[socket.socket]) -> int:
    """How many of them the gateway has closed."""
    count = 0
    for client in clients:
        client.setblocking(False)
        try:
            count += client.recv(1) == b""
        except BlockingIOError:
            continue
        except ConnectionError:
            count += 1
    return count


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
