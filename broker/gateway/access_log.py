"""One line for each request, gathered and written a few times a second.

Not the logging of the rest (structlog costs more than the whole answer to a put). A line holds
nothing that a client could break it with: the request id is checked, the path is the route's.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

from broker.ports import Clock

WRITE_S: Final = 0.2
LINES_MAX: Final = 100_000
"""Kept while standard error does not take them; later ones are counted and left out."""


class AccessLog:
    """`await run()` writes the lines to standard error; `close` writes what is left."""

    def __init__(self, clock: Clock, *, kinds: str, is_json: bool) -> None:
        self._clock = clock
        self._kinds = kinds
        self._is_json = is_json
        self._lines: list[str] = []
        self._left_out = 0

    def add(
        self, method: str, path: str, status: int, request_id: str, seconds: float, code: str
    ) -> None:
        """A request was answered; `code` is its problem's, or empty."""
        if self._kinds == "none" or (self._kinds == "errors" and status < 400):
            return
        if len(self._lines) >= LINES_MAX:
            self._left_out += 1
            return
        time_ms = self._clock.wall_ms()
        milliseconds = round(seconds * 1000, 3)
        if self._is_json:
            why = f',"code":"{code}"' if code else ""
            line = (
                f'{{"event":"request","logger":"hermes.gateway.access","time_ms":{time_ms},'
                f'"method":{json.dumps(method)},"path":"{path}","status":{status},'
                f'"request_id":"{request_id}","ms":{milliseconds}{why}}}\n'
            )
        else:
            why = f" code={code}" if code else ""
            line = (
                f"{time_ms} request method={method} path={path} status={status} "
                f"request_id={request_id} ms={milliseconds}{why}\n"
            )
        self._lines.append(line)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(WRITE_S)
            self.close()

    def close(self) -> None:
        """Write what was gathered."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        if self._left_out:
            lines.append(f"{self._left_out} requests are not in this log\n")
            self._left_out = 0
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
