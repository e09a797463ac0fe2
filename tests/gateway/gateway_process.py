"""A real gateway in a process of its own, and a plain HTTP client for it."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
READY = re.compile(rb"^ready gateway=http://127\.0\.0\.1:(\d+)$", re.MULTILINE)


class Reply(NamedTuple):
    """An HTTP answer; `json` is its document."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class GatewayProcess:
    """As a context manager: ready inside, gone afterwards. Its ids topic is its own."""

    def __init__(
        self, directory: Path, bootstrap: str, *, prefix: Sequence[str] = (), **settings: object
    ) -> None:
        self._prefix = prefix
        directory.mkdir(parents=True, exist_ok=True)
        self.log_path = directory / "gateway.log"
        self.port = 0
        self.settings: dict[str, object] = {
            "bootstrap_servers": bootstrap,
            "dedup_topic": f"ids-{uuid.uuid4().hex}",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> GatewayProcess:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process is not None:
            self.end(signal.SIGTERM)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *, waits: bool = True, timeout: float = 40) -> None:
        """Returns when it is ready, or (`waits` False) at once."""
        assert self._process is None
        settings = {**self.settings, "port": self.port}
        flags = [
            word
            for name, value in settings.items()
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "broker", "gateway", *flags],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        if waits:
            self.wait_until_ready(timeout)

    def wait_until_ready(self, timeout: float = 40) -> None:
        """Reads the port from the ready line."""
        assert self._process is not None
        assert self._process.stdout is not None
        end = time.monotonic() + timeout
        printed = b""
        while time.monotonic() < end:
            readable, _, _ = select.select([self._process.stdout], [], [], 0.1)
            if readable:
                read = os.read(self._process.stdout.fileno(), 65536)
                printed += read
                if found := READY.search(printed):
                    self.port = int(found[1])
                    return
                if not read:
                    break
        log = self.log_path.read_bytes()[-3000:].decode(errors="replace")
        raise AssertionError(f"the gateway is not ready; printed {printed!r}, log:\n{log}")

    def end(self, by: signal.Signals, *, timeout: float = 25) -> int:
        """Its exit code."""
        assert self._process is not None
        self._process.send_signal(by)
        return self.wait(timeout)

    def wait(self, timeout: float = 25) -> int:
        """Its exit code, once it ended by itself."""
        assert self._process is not None
        process, self._process = self._process, None
        try:
            return process.wait(timeout)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def call(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float = 40,
    ) -> Reply:
        """One request on a connection of its own; `body` is sent in place of a document."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            sent = dict(headers or {})
            if document is not None:
                body = json.dumps(document).encode()
            if body is not None:
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def put(self, topic: str, **fields: Any) -> Reply:
        """Put one message; `value` bytes become the body."""
        if "value" in fields:
            fields["body"] = base64.b64encode(fields.pop("value")).decode()
        fields.setdefault("body", "")
        return self.call("PUT", "/api/v1/messages", {"topic": topic, **fields})

    def put_batch(self, messages: list[dict[str, Any]], **fields: Any) -> Reply:
        return self.call("PUT", "/api/v1/messages", {"messages": messages, **fields})

    def fetch(self, topic: str, partition: int, offset: object, **more: object) -> Reply:
        query = {"topic": topic, "partition": partition, "offset": offset, **more}
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return self.call("GET", f"/api/v1/messages/fetch?{text}")

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        text = self.call("GET", "/metrics").body.decode()
        rows = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, rows))


def wait_until(condition: Any, *, seconds: float = 30, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.02)
