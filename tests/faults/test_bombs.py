"""Batches that claim or unpack to far more than they are: refused, in bounded memory and time, and
nobody else waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import pytest

from broker.errors import ErrorCode
from broker.records.build import append_record, build_batch, encode_body, frame_batch
from broker.records.compression import CODEC_IDS
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, resident_bytes

BOMB_COUNT = 50
UNPACKED_BYTES = {"zstd": 200 << 20, "lz4": 100 << 20, "gzip": 66 << 20}
LOOP_LAG_S_MAX = 0.1
LATE_COUNT_MAX = 3
"""Pauses that a busy machine makes by itself; each bomb on the loop would be one more."""
GROWTH_BYTES_MAX = 150 << 20
"""Of the broker's process: fifty copies of what was sent, and what allocators keep."""
WORKER_BYTES_MAX = 400 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("bombs")) as process:
        yield process
        assert "Traceback" not in process.log_path.read_text()


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    """By codec: a batch of at most 1 MB that unpacks to so many bytes."""
    found = {
        codec: bytes(build_batch([(b"k", bytes(size))], timestamp_ms=now_ms(), compression=codec))
        for codec, size in UNPACKED_BYTES.items()
    }
    assert all(len(bomb) < 1_048_000 for bomb in found.values())
    return found


def now_ms() -> int:
    return int(time.time() * 1000)


def worker_pid(broker: BrokerProcess) -> int:
    with open(f"/proc/{broker.pid}/task/{broker.pid}/children", encoding="ascii") as file:
        (pid,) = file.read().split()
    return int(pid)


class LagWatch:
    """Asks for the versions again and again on a connection of its own: the longest wait."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.lags_s: list[float] = []

    def __enter__(self) -> LagWatch:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with WireClient(self._broker.kafka_port) as client:
            while not self._is_over.is_set():
                began = time.monotonic()
                client.fetch("quiet", 0)
                self.lags_s.append(time.monotonic() - began)
                time.sleep(0.005)


@pytest.mark.parametrize("settings", [{"record_validation": "full"}, {"compression_type": "gzip"}])
def test_fifty_bombs_at_once_are_refused_in_bounded_memory_and_hold_up_nobody(
    broker: BrokerProcess, bombs: dict[str, bytes], settings: dict[str, str]
) -> None:
    topic = f"bombs-{'-'.join(settings)}"
    with WireClient(broker.kafka_port) as client:
        client.create_topic(topic, **settings)
        if topic.endswith("validation"):
            client.create_topic("quiet")
        client.produce("quiet", [(b"k", b"v")])
        assert client.produce(topic, [(b"k", bytes(700_000))]).error_code == 0
    before = resident_bytes(broker.pid)
    late_before = late_count(broker)
    names = [name for name in bombs if name != settings.get("compression_type")]

    def send(number: int) -> tuple[int, str | None]:
        with WireClient(broker.kafka_port, 120) as client:
            answer = client.produce(topic, bombs[names[number % len(names)]])
            return int(answer.error_code), answer.error_message

    with LagWatch(broker) as watch, ThreadPoolExecutor(BOMB_COUNT) as pool:
        answers = list(pool.map(send, range(BOMB_COUNT)))
    assert {code for code, _message in answers} == {ErrorCode.MESSAGE_TOO_LARGE}
    assert all("send smaller" in (message or "") for _code, message in answers)
    assert resident_bytes(broker.pid) - before < GROWTH_BYTES_MAX
    assert resident_bytes(worker_pid(broker)) < WORKER_BYTES_MAX
    assert late_count(broker) - late_before <= LATE_COUNT_MAX
    watch.lags_s.sort()
    assert watch.lags_s[len(watch.lags_s) // 2] < LOOP_LAG_S_MAX
    with WireClient(broker.kafka_port) as client:
        answer = client.fetch(topic, 0, partition_max_bytes=4 << 20)
        assert answer.high_watermark == 1


def late_count(broker: BrokerProcess) -> int:
    """How often the event loop was later than LOOP_LAG_S_MAX, by the broker's own count."""
    with urlopen(f"{broker.metrics_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    counts = {
        line.split('le="')[1].split('"')[0]: float(line.split()[-1])
        for line in lines
        if line.startswith("hermes_loop_lag_seconds_bucket")
    }
    below = max(
        count
        for bound, count in counts.items()
        if bound != "+Inf" and float(bound) <= LOOP_LAG_S_MAX
    )
    return int(counts["+Inf"] - below)


@pytest.mark.parametrize("codec", [0, CODEC_IDS["zstd"]])
def test_headers_and_records_by_the_million_cost_bounded_time(
    broker: BrokerProcess, codec: int
) -> None:
    topic = f"millions-{codec}"
    with WireClient(broker.kafka_port, 60) as client:
        client.create_topic(
            topic,
            record_validation="full",
            max_record_headers="100000000",
            max_record_header_bytes="100000000",
            max_record_bytes="100000000",
            max_message_bytes="8000000",
        )
        headers = encode_body(b"k", b"", [("", None)] * 1_100_000)
        assert client.produce(topic, framed(1, headers, codec)).error_code == (
            ErrorCode.MESSAGE_TOO_LARGE
        )
        assert client.produce(topic, framed(400_000, b"\1\1\0", codec)).error_code == (
            ErrorCode.MESSAGE_TOO_LARGE
        )
        assert client.produce(topic, [(b"k", b"v")]).base_offset == 0


def framed(count: int, body: bytes, codec: int) -> bytearray:
    """A batch of `count` such records."""
    records = bytearray()
    for delta in range(count):
        append_record(records, 0, delta, body)
    return frame_batch(
        bytes(records),
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=now_ms(),
        max_timestamp=now_ms() + 10,
        codec=codec,
        producer=(-1, -1, -1),
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
    )


def test_small_bombs_that_fill_a_read_of_the_socket_let_others_have_their_turn(
    broker: BrokerProcess,
) -> None:
    topic = "crowd"
    value = bytes(250_000)
    bomb = build_batch([(b"k", value)], timestamp_ms=now_ms(), compression="zstd")
    assert len(bomb) < 200
    count = 600
    with WireClient(broker.kafka_port, 60) as client:
        client.create_topic(topic, record_validation="full", max_record_bytes="100")
        before = late_count(broker)
        for _ in range(count):
            client.send_batch(topic, bomb)
        for _ in range(count):
            answer = client.receive().responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert late_count(broker) - before <= LATE_COUNT_MAX
