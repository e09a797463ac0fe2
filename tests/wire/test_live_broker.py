"""Any request of any version, with random values or broken bytes, against a real broker: an answer
or a closed connection, no crash, bounded memory (CVE-2022-34917).
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from broker.wire import api, frame
from broker.wire.api import Api
from tests.support.broker_process import BrokerProcess
from tests.wire.samples import VERSIONS, sample
from tests.wire.test_fuzz import HOSTILE

MEMORY_BYTES_MAX = 256 << 20
HEADER_BYTES = 4 + 10 + len("fuzz")
ROUNDS = 3


class Peer:
    """One connection after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def ask(self, data: bytes) -> memoryview | None:
        """The answer without its size; None when the broker closed or waits (a parked join)."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port))
            self._socket.settimeout(1)
        try:
            self._socket.sendall(data)
            return memoryview(self._read(struct.unpack(">i", self._read(4))[0]))
        except (OSError, EOFError):
            self.close()
            return None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _read(self, count: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path_factory.mktemp("any-request"), settings) as process:
        yield process


def request_bytes(row: Api, version: int, random: Random) -> bytes:
    """A whole frame with random values; nothing in it makes the broker wait for long."""
    message = sample(row.request_type, version, random)
    if row.key == api.JOIN_GROUP:
        message.session_timeout_ms = 6000
        message.rebalance_timeout_ms = 100 if version >= 1 else -1
    elif row.key == api.FETCH:
        message.max_wait_ms = min(message.max_wait_ms, 20)
    elif row.key == api.PRODUCE:
        message.acks = random.choice((-1, 1, 7))
    return frame.encode_request(row.key, version, 7, "fuzz", message)


def broken(data: bytes, random: Random) -> bytes:
    """The frame with something impossible in its body, and a size that is right."""
    position = random.randrange(HEADER_BYTES, len(data)) if len(data) > HEADER_BYTES else 4
    patch = random.choice(HOSTILE)
    body = data[4:position] + patch + data[position + len(patch) :]
    return struct.pack(">i", len(body)) + body


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no memory figure")


def test_any_request_is_answered_or_refused_and_nothing_else_happens(
    broker: BrokerProcess,
) -> None:
    peer = Peer(broker.kafka_port)
    outcomes: Counter[str] = Counter()
    for row, direction, version in VERSIONS:
        if direction != "request" or row.key not in api.APIS:
            continue
        random = Random(f"{row.name} {version}")
        for _ in range(ROUNDS):
            whole = request_bytes(row, version, random)
            answer = peer.ask(whole)
            if answer is None:
                assert row.key == api.JOIN_GROUP, f"{row.name} v{version}: closed for {whole!r}"
                outcomes["parked"] += 1
            else:
                assert frame.decode_response(row.key, version, answer)[0] == 7
                outcomes["answered"] += 1
            outcomes["refused" if peer.ask(broken(whole, random)) is None else "taken"] += 1
    peer.close()
    assert outcomes["answered"] > 300
    assert outcomes["refused"] > 100
    assert resident_bytes(broker.pid) < MEMORY_BYTES_MAX
    assert "Traceback" not in broker.log_path.read_text()
    assert broker.terminate() == 0
    broker.start()
