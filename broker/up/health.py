"""Whether a child answers: one HTTP GET over a plain socket, so that start-up imports no client."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

ANSWER_S_MAX: Final = 2.0
POLL_S: Final = 0.05


async def is_answering(url: str) -> bool:
    """Whether a GET of `http://host:port/path` is answered with a 2xx or 3xx status in time."""
    parts = urlsplit(url)
    request = (
        f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        "Connection: close\r\nUser-Agent: hermes-up\r\n\r\n"
    )
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(request.encode("ascii"))
                status_line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return False
    words = status_line.split()
    return len(words) >= 2 and words[1][:1] in {b"2", b"3"}


async def wait_until_answering(url: str) -> None:
    """Returns once `url` answers. Waits for ever: the caller sets the bound."""
    while not await is_answering(url):
        await asyncio.sleep(POLL_S)
