"""Background tasks that have an owner: `TaskScope` is the root of a TaskGroup that outlives one
function call.

Invariants: no task outlives `close`; a task that crashes is logged with its name, and nothing else
of the process is touched; a cancelled task is not a crash.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

import structlog

_log = structlog.get_logger("hermes.tasks")


class TaskScope:
    """An owner's background tasks. `spawn` (a `ports.Spawn`) works between `start` and `close`."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._group: asyncio.TaskGroup | None = None
        self._root: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when tasks may be spawned. Start once."""
        assert self._root is None, f"task scope {self.owner} was started twice"
        is_ready = asyncio.Event()
        self._root = asyncio.create_task(self._run(is_ready), name=f"{self.owner}/root")
        await is_ready.wait()

    def spawn(self, work: Awaitable[None], name: str | None = None) -> asyncio.Task[None]:
        """Run `work` in the background until it ends or the scope closes."""
        assert self._group is not None, f"task scope {self.owner} is not running"
        task_name = f"{self.owner}/{name or _name_of(work)}"
        task = self._group.create_task(self._guard(work, task_name), name=task_name)
        if inspect.iscoroutine(work):
            # A task that is cancelled before its first step never awaits its work.
            task.add_done_callback(lambda _task: work.close())
        return task

    async def close(self) -> None:
        """Cancel every task and wait for them. Closing twice, or before `start`, is fine."""
        root = self._root
        if root is None:
            return
        root.cancel()
        await asyncio.wait([root])

    async def _run(self, is_ready: asyncio.Event) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                is_ready.set()
                await asyncio.Event().wait()
        finally:
            self._group = None

    async def _guard(self, work: Awaitable[None], name: str) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the root of a background task
            _log.error("background task crashed", task=name, exc_info=error)


def _name_of(work: Awaitable[None]) -> str:
    return str(getattr(work, "__qualname__", type(work).__name__))
