"""Fetch as fast as a broker gives, without looking at records: what follows the head of an answer
is dropped in the kernel (MSG_TRUNC), so that the broker is the limit.

Batches come back as they were sent, so their number, and with it the next offset, follows from the
bytes. One connection a partition, or with `is_one_consumer` one fetch at a time, as one consumer
does; the history is read again and again until the time is over.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from broker.bench.frames import (
    BenchRefusal,
    FetchFrame,
    build,
    fetch_head_bytes,
    read_fetch_head,
)
from broker.bench.raw_produce import SILENCE_S_MAX, connect, cpu_s, receive_exactly
from broker.bench.told import Told

_SIZE: Final = struct.Struct(">i")
_DROP_BYTES: Final = 4 << 20


class Reader:
    """One partition. `end` is where it begins again; without one it waits there for more."""

    def __init__(self, job: Mapping[str, Any], partition: int, end: int | None) -> None:
        batch = build(job["batch_bytes"], job["record_bytes"])
        self.batch_bytes, self.batch_records = len(batch.content), batch.records
        self.peer = connect(job["bootstrap"])
        self.end = end
        self.records = 0
        self.bytes = 0
        self.rounds = 0
        self._topic = job["topic"]
        self._offset = 0
        self._frame = FetchFrame(
            self._topic,
            [partition],
            partition_bytes_max=job["fetch_bytes"],
            wait_ms=job.get("wait_ms", 100),
        )
        self._head_bytes = fetch_head_bytes(self._topic)
        self._dropped = bytearray(_DROP_BYTES)

    def ask(self) -> None:
        self.peer.sendall(self._frame.at([self._offset]))

    def receive(self) -> None:
        """Raises BenchRefusal, also when the answer holds something else than whole batches."""
        (size,) = _SIZE.unpack(receive_exactly(self.peer, 4))
        head = receive_exactly(self.peer, min(size, self._head_bytes - 4))
        found = read_fetch_head(bytes(4) + head, self._topic)
        self._drop(size - len(head))
        batches = found.records_bytes // self.batch_bytes  # the last one may be cut off
        if found.records_bytes and not batches:
            raise BenchRefusal("an answer to a fetch holds no whole batch")
        self._offset += batches * self.batch_records
        self.records += batches * self.batch_records
        self.bytes += found.records_bytes
        if self.end is not None:
            if self._offset > self.end or not batches:
                raise BenchRefusal(f"{self._topic}: read to {self._offset} of {self.end}")
            if self._offset == self.end:
                self._offset = 0
                self.rounds += 1

    def _drop(self, count: int) -> None:
        while count:
            dropped = self.peer.recv_into(
                self._dropped, min(count, _DROP_BYTES), socket.MSG_TRUNC | socket.MSG_WAITALL
            )
            if not dropped:
                raise BenchRefusal("the broker closed the connection")
            count -= dropped


def catch_up(job: Mapping[str, Any]) -> dict[str, Any]:
    """`ends` are the offsets behind the last record, per partition. Ends after `seconds`, or with
    `rounds` when every partition was read that often.
    """
    readers = [Reader(job, index, end) for index, end in enumerate(job["ends"]) if end]
    rounds_max = job.get("rounds")
    began_s, began_cpu = time.monotonic(), cpu_s()
    end_s = began_s + job["seconds"]
    is_alone = job.get("is_one_consumer", False)
    asked = list(readers)
    if not is_alone:
        for reader in asked:
            reader.ask()
    while asked:
        is_over = time.monotonic() >= end_s
        waiting, asked = asked, []
        for reader in waiting:
            if is_alone:
                reader.ask()
            reader.receive()
            is_read = rounds_max is not None and reader.rounds >= rounds_max
            if is_over or is_read:
                continue
            if not is_alone:
                reader.ask()
            asked.append(reader)
    return _result(readers, began_s, began_cpu)


def live(job: Mapping[str, Any]) -> dict[str, Any]:
    """Every record that is produced meanwhile, until the parent tells how many there are."""
    readers = [Reader(job, index, None) for index in range(job["partitions"])]
    for reader in readers:
        reader.ask()
    print("ready", flush=True)
    told, wanted = Told(), sys.maxsize
    began_s, began_cpu = time.monotonic(), cpu_s()
    news_s = began_s
    while sum(reader.records for reader in readers) < wanted:
        before = sum(reader.records for reader in readers)
        for reader in readers:
            reader.receive()
            reader.ask()
        if told.is_told:
            wanted = int(told.line)
        if sum(reader.records for reader in readers) > before:
            news_s = time.monotonic()
        elif time.monotonic() - news_s > SILENCE_S_MAX:
            raise BenchRefusal(f"{before} of {wanted} records came")
    return _result(readers, began_s, began_cpu)


def _result(readers: list[Reader], began_s: float, began_cpu: float) -> dict[str, Any]:
    seconds, used = time.monotonic() - began_s, cpu_s() - began_cpu
    for reader in readers:
        reader.peer.close()
    return {
        "records": sum(reader.records for reader in readers),
        "bytes": sum(reader.bytes for reader in readers),
        "rounds": min((reader.rounds for reader in readers), default=0),
        "seconds": seconds,
        "cpu_seconds": used,
    }
