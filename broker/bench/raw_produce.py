"""Produce as fast as a broker takes it, from requests that were built once: the load costs a send
and a receive, so that the broker is the limit.

Every answer is looked at: one of another size or with an error code ends the run.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, Final

from broker.bench.frames import (
    BenchRefusal,
    build,
    check_produced,
    error_position,
    produce_frame,
)

SILENCE_S_MAX: Final = 60.0
RING_BYTES_MAX: Final = 256 << 20
_SIZE: Final = struct.Struct(">i")


def connect(bootstrap: str) -> socket.socket:
    """A blocking connection without delay of small writes. A broker that is silent for too long
    ends a call with BlockingIOError: the kernel keeps the time, which spares a poll for each call.
    """
    host, _, port = bootstrap.rpartition(":")
    peer = socket.create_connection((host, int(port)), SILENCE_S_MAX)
    peer.settimeout(None)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    patience = struct.pack("@ll", int(SILENCE_S_MAX), 0)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        peer.setsockopt(socket.SOL_SOCKET, option, patience)
    return peer


def receive_exactly(peer: socket.socket, size: int) -> bytearray:
    """Raises BenchRefusal when the broker closes."""
    content = bytearray(size)
    view = memoryview(content)
    got = 0
    while got < size:
        count = peer.recv_into(view[got:], size - got)
        if not count:
            raise BenchRefusal("the broker closed the connection")
        got += count
    return content


class Pipe:
    """One connection that keeps up to `window` requests in flight. `ring` holds the frames of its
    partitions, each `frame_bytes` long, twice, so that any run of up to `count` is contiguous.
    """

    def __init__(self, bootstrap: str, topic: str, frames: list[bytearray], window: int) -> None:
        self.peer = connect(bootstrap)
        self.window = window
        self.in_flight = 0
        self.answered = 0
        self._frame_bytes = len(frames[0])
        self._count = len(frames) * -(-window // len(frames))
        self._ring = memoryview(b"".join(frames) * (2 * self._count // len(frames)))
        self._next = 0
        self._error_position = error_position(topic)
        self._answer_bytes = 0
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)
        self._kept = 0

    def probe(self) -> None:
        """One request and its answer, which tells how long answers are. Raises BenchRefusal."""
        self._send(1)
        (size,) = _SIZE.unpack(receive_exactly(self.peer, 4))
        check_produced(receive_exactly(self.peer, size))
        self._answer_bytes = size + 4
        self.in_flight -= 1
        self.answered += 1

    def fill(self) -> int:
        """Send until the window is full; how many."""
        count = self.window - self.in_flight
        if count:
            self._send(count)
        return count

    def send_one(self) -> None:
        self._send(1)

    def _send(self, count: int) -> None:
        start = self._next * self._frame_bytes
        self.peer.sendall(self._ring[start : start + count * self._frame_bytes])
        self._next = (self._next + count) % self._count
        self.in_flight += count

    def receive(self) -> int:
        """What has come; how many answers it completed. Raises BenchRefusal."""
        received = self.peer.recv_into(self._view[self._kept :])
        if not received:
            raise BenchRefusal("the broker closed the connection")
        total = self._kept + received
        size = self._answer_bytes
        count = total // size
        if count:
            self._check(count)
            rest = total - count * size
            if rest:
                self._buffer[:rest] = self._buffer[count * size : total]
            self._kept = rest
            self.in_flight -= count
            self.answered += count
        else:
            self._kept = total
        return count

    def _check(self, count: int) -> None:
        """All sizes are as expected and all error codes zero, by strides over the answers."""
        size, error = self._answer_bytes, self._error_position
        end = count * size
        wanted = _SIZE.pack(size - 4)
        is_good = all(
            self._view[place:end:size].tobytes() == wanted[place : place + 1] * count
            for place in range(4)
        )
        if is_good and not any(
            any(self._view[place:end:size].tobytes()) for place in (error, error + 1)
        ):
            return
        position = 0
        while position < end:  # name the first refusal
            (length,) = _SIZE.unpack_from(self._buffer, position)
            check_produced(self._buffer[position + 4 : position + 4 + length])
            position += 4 + length
        raise BenchRefusal("an answer to produce has another size than the first one")


def open_pipes(job: Mapping[str, Any]) -> tuple[list[Pipe], int, int]:
    """(pipes, records a request, bytes a batch). Partitions are dealt out to the connections."""
    batch = build(job["batch_bytes"], job["record_bytes"])
    connections, partitions, topic = job["connections"], job["partitions"], job["topic"]
    acks = {"all": -1, "1": 1}[job["acks"]]
    frames = [
        produce_frame(topic, [(partition, batch.content)], acks) for partition in range(partitions)
    ]
    assert sum(map(len, frames)) <= RING_BYTES_MAX, "fewer partitions or smaller batches"
    pipes = []
    for number in range(connections):
        own = frames[number::connections] or [frames[number % partitions]]
        pipes.append(Pipe(job["bootstrap"], topic, own, job["window"]))
    return pipes, batch.records, len(batch.content)


def produce(job: Mapping[str, Any]) -> dict[str, Any]:
    """Until `seconds` are over or `bytes_max` of batches were sent; all answers are awaited."""
    pipes, records, batch_bytes = open_pipes(job)
    for pipe in pipes:
        pipe.probe()
    probed = sum(pipe.answered for pipe in pipes)
    requests_max = job["bytes_max"] // batch_bytes
    poll = select.epoll()
    by_descriptor = {pipe.peer.fileno(): pipe for pipe in pipes}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    began_s, began_cpu = time.monotonic(), cpu_s()
    end_s = began_s + job["seconds"]
    in_flight = sent = sum(pipe.fill() for pipe in pipes)
    is_over = False
    while in_flight:
        ready = poll.poll(SILENCE_S_MAX)
        if not ready:
            raise BenchRefusal(f"no answer within {SILENCE_S_MAX:.0f} s")
        is_over = is_over or time.monotonic() >= end_s or sent >= requests_max
        for descriptor, _ in ready:
            pipe = by_descriptor[descriptor]
            in_flight -= pipe.receive()
            if not is_over:
                count = pipe.fill()
                sent += count
                in_flight += count
    seconds = time.monotonic() - began_s
    used = cpu_s() - began_cpu
    for pipe in pipes:
        pipe.peer.close()
    return {
        "requests": sent,
        "records": sent * records,
        "bytes": sent * batch_bytes,
        "acknowledged": (sent + probed) * records,
        "seconds": seconds,
        "cpu_seconds": used,
    }


def many(job: Mapping[str, Any]) -> dict[str, Any]:
    """As `produce`, with `in_flight` requests in total that go round over all the connections."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    pipes, records, batch_bytes = open_pipes({**job, "window": 1})
    for pipe in pipes:
        pipe.probe()
    print("ready", flush=True)
    input()
    poll = select.epoll()
    by_descriptor = {pipe.peer.fileno(): pipe for pipe in pipes}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    began_s, began_cpu = time.monotonic(), cpu_s()
    end_s = began_s + job["seconds"]
    sent = in_flight = due = 0
    wanted = job["in_flight"]
    while True:
        if time.monotonic() < end_s:
            for _ in range(wanted - in_flight):
                pipes[due].send_one()
                due = (due + 1) % len(pipes)
                sent += 1
            in_flight = wanted
        if not in_flight:
            break
        ready = poll.poll(SILENCE_S_MAX)
        if not ready:
            raise BenchRefusal(f"no answer within {SILENCE_S_MAX:.0f} s")
        for descriptor, _ in ready:
            in_flight -= by_descriptor[descriptor].receive()
    seconds = time.monotonic() - began_s
    used = cpu_s() - began_cpu
    for pipe in pipes:
        pipe.peer.close()
    return {
        "requests": sent,
        "records": sent * records,
        "bytes": sent * batch_bytes,
        "acknowledged": (sent + len(pipes)) * records,
        "seconds": seconds,
        "cpu_seconds": used,
    }


def cpu_s() -> float:
    """Processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
