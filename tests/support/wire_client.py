"""A blocking client that speaks frames: tests send exactly what they mean, also nonsense."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from broker.records.build import build_batch
from broker.wire import api
from broker.wire.frame import decode_response, encode_request
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

TIMEOUT_S = 10.0
PRODUCE_VERSION = 9
FETCH_VERSION = 12


class WireClient:
    """One connection. `send` and `receive` may be used apart, to pipeline."""

    def __init__(self, port: int, timeout: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._correlation_id = 0
        self._sent: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, message: Any) -> int:
        """Send a request; its correlation id."""
        self._correlation_id += 1
        frame = encode_request(api_key, version, self._correlation_id, "test", message)
        self.socket.sendall(frame)
        self._sent.append((api_key, version))
        return self._correlation_id

    def receive(self) -> Any:
        """The response of the oldest request that was not received; its order is checked."""
        api_key, version = self._sent.pop(0)
        expected_id = self._correlation_id - len(self._sent)
        correlation_id, message = decode_response(api_key, version, self.receive_frame())
        assert correlation_id == expected_id, "responses leave in request order"
        return message

    def call(self, api_key: int, version: int, message: Any) -> Any:
        """Send and receive."""
        self.send(api_key, version, message)
        return self.receive()

    def send_raw(self, data: bytes) -> None:
        """Bytes as they are. A peer that closed meanwhile is fine."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def receive_frame(self) -> memoryview:
        """The next frame without its size. Raises ConnectionError when the peer closed."""
        (size,) = struct.unpack(">i", self._read(4))
        return memoryview(self._read(size))

    def is_closed_within(self, seconds: float) -> bool:
        """Whether the peer closes, whatever it still sends."""
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                msg = f"the peer closed after {len(data)} of {size} bytes"
                raise ConnectionError(msg)
            data += piece
        return bytes(data)

    # what most tests need

    def create_topic(self, name: str, partition_count: int = 1, **settings: str) -> bytes:
        """Create a topic (settings with `_` for `.`); its id."""
        configs = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in settings.items()
        ]
        topic = CreatableTopic(
            name=name, num_partitions=partition_count, replication_factor=1, configs=configs
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        (result,) = self.call(api.CREATE_TOPICS, 7, request).topics
        assert result.error_code == 0, f"{name}: {result.error_message}"
        return bytes(result.topic_id)

    def produce(
        self,
        topic: str,
        records: Any,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
    ) -> PartitionProduceResponse:
        """Send one batch (bytes, or a list of (key, value)); what became of it."""
        self.send_batch(topic, records, partition=partition, acks=acks, version=version)
        answer: PartitionProduceResponse = self.receive().responses[0].partition_responses[0]
        return answer

    def send_batch(
        self,
        topic: str,
        records: Any,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
    ) -> None:
        """Send one batch without waiting; with acks=0 no response will come."""
        batch = batch_of(records) if isinstance(records, list) else records
        data = PartitionProduceData(index=partition, records=batch)
        self.send(
            api.PRODUCE,
            version,
            ProduceRequest(
                acks=acks,
                timeout_ms=10_000,
                topic_data=[TopicProduceData(name=topic, partition_data=[data])],
            ),
        )
        if acks == 0:
            self._sent.pop()
            self._correlation_id -= 1

    def fetch(self, topic: str, offset: int, *, version: int = FETCH_VERSION, **fields: Any) -> Any:
        """Fetch one partition: its PartitionData."""
        response = self.call(api.FETCH, version, fetch_request(topic, offset, **fields))
        return response.responses[0].partitions[0]

    def send_fetch(self, topic: str, offset: int, **fields: Any) -> None:
        """Fetch without waiting."""
        self.send(api.FETCH, FETCH_VERSION, fetch_request(topic, offset, **fields))


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    partition_max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    **fields: Any,
) -> FetchRequest:
    """A request for one partition; `fields` are the request's own."""
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=partition_max_bytes,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        **fields,
    )


def batch_of(records: list[tuple[bytes | None, bytes | None]], **fields: Any) -> bytearray:
    """A valid batch as a producer would send it."""
    return build_batch(
        records, timestamp_ms=fields.pop("timestamp_ms", 1_700_000_000_000), **fields
    )


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
