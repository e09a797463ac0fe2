"""Load for the HTTP gateway in a process of its own: puts over many kept connections, each of which
sends its next request when it has the answer to the last. `python -m broker.bench.http_load JSON`.

Requests are made before the clock starts, so that what is measured is the gateway. The last line
printed is the result as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
import uuid
from functools import partial
from typing import Any, Final, cast

REQUESTS_MADE_MAX: Final = 50_000
PREPARED_BYTES_MAX: Final = 256 << 20
END_S_MAX: Final = 15.0


class Load:
    """`requests` are sent in turn; beyond them new ones are made."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.body = base64.b64encode(os.urandom(job["record_bytes"])).decode()
        self.end_s = 0.0
        self.answered = 0
        self.failed = 0
        self.first_failure = b""
        size = len(self.request())
        count = min(REQUESTS_MADE_MAX, PREPARED_BYTES_MAX // size)
        self.requests = [self.request() for _ in range(count)]

    def message(self) -> str:
        message_id = uuid.uuid4().hex
        return (
            f'{{"topic":"{self.job["topic"]}","shardingKey":"order-{message_id[:8]}",'
            f'"messageId":"{message_id}","headers":{{"event-type":"OrderCreated"}},'
            f'"body":"{self.body}"}}'
        )

    def request(self) -> bytes:
        count = self.job["messages"]
        if count == 1:
            document = self.message()
        else:
            rows = ",".join(self.message() for _ in range(count))
            document = f'{{"messages":[{rows}]}}'
        head = (
            "PUT /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(document)}\r\n\r\n"
        )
        return (head + document).encode()

    def next(self) -> bytes:
        return self.requests.pop() if self.requests else self.request()


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: Load, closed: asyncio.Future[None]) -> None:
        self._load = load
        self._closed = closed
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._load.next())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = head.partition(b"Content-Length: ")[2].partition(b"\r")[0]
        if len(body) < int(length):
            return
        load = self._load
        load.answered += 1
        if not head.startswith(b"HTTP/1.1 200"):
            load.failed += 1
            load.first_failure = load.first_failure or self._buffer[:1000]
        self._buffer = b""
        assert self._transport is not None, "it is connected"
        if time.monotonic() < load.end_s:
            self._transport.write(load.next())
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)


async def run(load: Load) -> dict[str, Any]:
    """Put until the time is over, and wait for what is on its way."""
    loop = asyncio.get_running_loop()
    connections = load.job["connections"]
    began_s, began_cpu = time.monotonic(), time.process_time()
    load.end_s = began_s + load.job["seconds"]
    closed = [loop.create_future() for _ in range(connections)]
    for future in closed:
        await loop.create_connection(partial(Client, load, future), "127.0.0.1", load.job["port"])
    await asyncio.wait(closed, timeout=load.job["seconds"] + END_S_MAX)
    return {
        "requests": load.answered,
        "failed": load.failed,
        "first_failure": load.first_failure.decode(errors="replace"),
        "seconds": time.monotonic() - began_s,
        "cpu_seconds": time.process_time() - began_cpu,
    }


def main() -> None:
    """Prepare, say `ready`, wait for a line, run, print the result."""
    load = Load(json.loads(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asyncio.run(run(load))), flush=True)


if __name__ == "__main__":
    main()
