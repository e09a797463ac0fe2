"""From the start of a broker's process until it has acknowledged a first record."""

from __future__ import annotations

import socket
import time
from typing import Final

from broker.bench.asking import ask, receive_frame
from broker.bench.frames import BenchRefusal, check_produced, of_records, produce_frame
from broker.wire import api
from broker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

FIRST_S_MAX: Final = 120.0
TOPIC: Final = "bench-first"
_RETRY_S: Final = 0.005
_CREATE_VERSION: Final = 7
_EXISTS: Final = 36


def first_record_s(bootstrap: str, started_s: float) -> float:
    """Seconds since `started_s` (monotonic) until one record of 1 KB is acknowledged with acks=all:
    connections are tried without pause, the topic is created first. Raises TimeoutError.
    """
    host, _, port = bootstrap.rpartition(":")
    frame = produce_frame(TOPIC, [(0, of_records(1, 1024).content)], -1)
    while time.monotonic() - started_s < FIRST_S_MAX:
        try:
            with socket.create_connection((host, int(port)), timeout=FIRST_S_MAX) as peer:
                _create(peer)
                peer.sendall(frame)
                check_produced(receive_frame(peer))
                return time.monotonic() - started_s
        except (OSError, BenchRefusal):
            time.sleep(_RETRY_S)
    msg = f"{bootstrap} acknowledged nothing within {FIRST_S_MAX:.0f} s"
    raise TimeoutError(msg)


def _create(peer: socket.socket) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (result,) = ask(peer, api.CREATE_TOPICS, _CREATE_VERSION, request).topics
    if result.error_code not in {0, _EXISTS}:
        raise BenchRefusal(f"error {result.error_code}")
