"""A command that ends by itself: run it, read its output, never leave it behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_END_S_MAX: Final = 10.0


class Outcome(NamedTuple):
    """`output` is what the command wrote to standard output and error together."""

    code: int
    output: str


async def run_once(
    command: Sequence[str], *, environment: Mapping[str, str], working_directory: Path
) -> Outcome:
    """The command's outcome. Cancelled, it ends the command first: SIGTERM, then SIGKILL."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=working_directory,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            await asyncio.shield(_end(process))
    assert process.returncode is not None, "communicate waits for the end"
    return Outcome(process.returncode, output.decode(errors="replace").strip())


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_END_S_MAX):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
