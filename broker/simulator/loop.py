"""The seeded event loop: virtual time, simulated processes, one total order of events per seed.

Every callback belongs to the process of the context it was scheduled in. Inside a process
callbacks run first in, first out; which process runs next is the seed's choice. Time moves to the
next timer when nobody can run, and a little with every callback, so that a busy loop cannot stop
it. A killed process runs nothing more, not even its `finally` blocks: its tasks are kept until the
world ends. There are no threads and no sockets.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import inspect
import itertools
import sys
import warnings
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
EVENT_COST_S: Final = 1e-6
"""Virtual time that one callback takes."""
CLOSE_ATTEMPTS_MAX: Final = 20
_TRACE_MASK: Final = (1 << 64) - 1
_TRACE_PRIME: Final = 0x100000001B3


class ProcessKilled(BaseException):
    """Unwinds the call in which its own process was killed; nothing may catch it."""


class Process:
    """One incarnation of a simulated operating-system process."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.is_alive = True
        self.is_paused = False
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.on_killed: list[Callable[[], None]] = []
        self.context = copy_context()
        self.context.run(_process.set, self)

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"


_process: ContextVar[Process] = ContextVar("simulated_process")


def current_process() -> Process:
    """The process whose code runs now."""
    return _process.get()


class SimulatedLoop(asyncio.BaseEventLoop):
    """Run it with `run_until_complete`; the main coroutine runs in the process "harness"."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.set_debug(False)
        self.event_count = 0
        self.trace = 0xCBF29CE484222325
        self.unhandled: list[str] = []
        self.is_over = False
        self._random = random
        self._now_s = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_numbers = itertools.count()
        self._processes: list[Process] = []
        self._process_numbers = itertools.count()
        self._generators: WeakKeyDictionary[AsyncGenerator[Any, Any], Process] = WeakKeyDictionary()
        self._dead: list[Process] = []
        self.harness = self.add_process("harness")
        self._running = self.harness

    def add_process(self, name: str) -> Process:
        process = Process(name, next(self._process_numbers))
        self._processes.append(process)
        return process

    def spawn(
        self, process: Process, work: Coroutine[Any, Any, T], name: str | None = None
    ) -> asyncio.Task[T]:
        """Start `work` as a task of `process`."""
        return process.context.run(self.create_task, work, name=name)

    def kill(self, process: Process) -> None:
        """The process ends now, in the middle of whatever it does."""
        assert process is not self.harness, "the harness is not a simulated process"
        if not process.is_alive:
            return
        process.is_alive = False
        process.ready.clear()
        self._processes.remove(process)
        self._dead.append(process)
        for callback in process.on_killed:
            callback()

    def call_in(
        self, process: Process, delay_s: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.Handle:
        """As `call_later`, in another process."""
        if delay_s <= 0:
            return self.call_soon(callback, *args, context=process.context)
        return self.call_later(delay_s, callback, *args, context=process.context)

    def end(self) -> None:
        """Drop everything that still waits, in silence. The loop is closed afterwards."""
        self.is_over = True
        everybody = [*self._processes, *self._dead]
        for process in everybody:
            process.is_alive = False
            process.ready.clear()
        self._timers.clear()
        quiet, sys.unraisablehook = sys.unraisablehook, _ignore
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # coroutines that were never started
                for _ in range(CLOSE_ATTEMPTS_MAX):
                    for process in everybody:
                        _take_apart(process)
                    if not self.harness.tasks:  # where what a `finally` starts now is put
                        break
                self._processes.clear()
                self._dead.clear()
                self._running = self.harness
                everybody.clear()
                gc.collect()
        finally:
            sys.unraisablehook = quiet
        self.close()

    def mix(self, value: int) -> None:
        """Add a fact to the trace hash."""
        self.trace = ((self.trace ^ value) * _TRACE_PRIME) & _TRACE_MASK

    # asyncio's surface

    def time(self) -> float:
        return self._now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        process = context.get(_process, self.harness)
        if process.is_alive:
            process.ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if context.get(_process, self.harness).is_alive:
            heapq.heappush(self._timers, (when, next(self._timer_numbers), handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def create_task(self, coro: Any, *, name: object = None, context: Any = None) -> Any:
        task = super().create_task(coro, name=name, context=context)
        tasks = _process.get(self.harness).tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def run_in_executor(self, executor: object, func: object, *args: object) -> asyncio.Future[Any]:
        msg = f"the simulated world has no threads: {func} must go through a port"
        raise RuntimeError(msg)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback or task of a living process failed and nobody noticed: a finding."""
        error = context.get("exception")
        if self.is_over or not self._running.is_alive or isinstance(error, ProcessKilled):
            return
        self.unhandled.append(f"{self._running}: {context.get('message')}: {error!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _asyncgen_firstiter_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        self._generators[agen] = _process.get(self.harness)

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        process = self._generators.pop(agen, self.harness)
        if process.is_alive and not self.is_over:
            self.spawn(process, agen.aclose(), name="generator/close")

    def _run_once(self) -> None:
        runnable = [each for each in self._processes if each.ready and not each.is_paused]
        if not runnable:
            self._advance()
            return
        chosen = runnable[0]
        if len(runnable) > 1:
            chosen = runnable[int(self._random.random() * len(runnable))]
        handle = chosen.ready.popleft()
        if handle.cancelled():
            return
        self._running = chosen
        self.event_count += 1
        self._now_s += EVENT_COST_S
        self.mix(chosen.number << 48 ^ int(self._now_s * 1e6))
        handle._run()
        self._running = self.harness
        if self._timers and self._timers[0][0] <= self._now_s:
            self._release_timers()

    def _advance(self) -> None:
        """Nobody can run: go to the next timer."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            msg = "the simulated world is deadlocked: nothing to run and no timer"
            raise RuntimeError(msg)
        self._now_s = max(self._now_s, self._timers[0][0])
        self._release_timers()

    def _release_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self._now_s:
            _when, _number, handle = heapq.heappop(self._timers)
            process = handle._context.get(_process, self.harness)  # type: ignore[attr-defined]
            if not handle.cancelled() and process.is_alive:
                process.ready.append(handle)


def _ignore(_unraisable: object) -> None:
    """Coroutines of dead processes may complain when they are taken apart."""


def _take_apart(process: Process) -> None:
    tasks, process.tasks = process.tasks, set()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        _end_coroutine(task.get_coro())
    tasks.clear()
    process.on_killed.clear()


def _end_coroutine(work: Any) -> None:
    """Close it, and what it was given to run and has not begun with; its `finally` blocks may wait
    again a few times, for nothing.
    """
    if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        for given in inspect.getcoroutinelocals(work).values():
            if inspect.iscoroutine(given):
                given.close()
    for _ in range(CLOSE_ATTEMPTS_MAX):
        with suppress(BaseException):  # whatever it says, it is dead
            work.close()
            return
