"""One request to one broker, and its answer."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

from broker.bench.frames import BenchRefusal
from broker.bench.raw_produce import connect, receive_exactly
from broker.wire import api
from broker.wire.frame import decode_response, encode_request
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_CLIENT: Final = "hermes-bench"
_LIST_OFFSETS_VERSION: Final = 7
_LATEST: Final = -1


def ask(peer: socket.socket, api_key: int, version: int, request: Any) -> Any:
    """The decoded answer. Raises OSError, BenchRefusal when the broker closes."""
    peer.sendall(encode_request(api_key, version, 1, _CLIENT, request))
    return decode_response(api_key, version, memoryview(receive_frame(peer)))[1]


def receive_frame(peer: socket.socket) -> bytearray:
    """The next frame without its size. Raises BenchRefusal when the broker closes."""
    (size,) = struct.unpack(">i", receive_exactly(peer, 4))
    return receive_exactly(peer, size)


def ask_end_offsets(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """The offset behind the last record of each partition. Raises OSError, and BenchRefusal when
    the broker does not lead one of them.
    """
    wanted = [ListOffsetsPartition(partition_index=n, timestamp=_LATEST) for n in range(partitions)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
    )
    with connect(bootstrap) as peer:
        (found,) = ask(peer, api.LIST_OFFSETS, _LIST_OFFSETS_VERSION, request).topics
    for partition in found.partitions:
        if partition.error_code:
            raise BenchRefusal(f"{topic}-{partition.partition_index}: error {partition.error_code}")
    offsets = {partition.partition_index: partition.offset for partition in found.partitions}
    return [offsets[number] for number in range(partitions)]
