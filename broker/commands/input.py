"""Standard input without blocking the event loop, and without a thread that Ctrl-C waits for."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator
from typing import Final

CHUNK_BYTES: Final = 256 * 1024


async def read_chunks(descriptor: int) -> AsyncIterator[bytes]:
    """What can be read, as it comes, until the end of input."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
        is_watched = True
    except PermissionError:  # an ordinary file, or /dev/null: always ready
        is_watched = False
    try:
        while True:
            if is_watched:
                await ready.wait()
                ready.clear()
                if not select.select([descriptor], [], [], 0)[0]:
                    continue  # told twice of what was read already: reading would stop the loop
            else:
                await asyncio.sleep(0)
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                return
            yield chunk
    finally:
        if is_watched:
            loop.remove_reader(descriptor)
