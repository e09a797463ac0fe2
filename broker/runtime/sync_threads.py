"""The threads that sync what a round takes: side by side, with one wake-up of the loop when the
last one has ended. Whichever is idle takes the next call, whoever asked for it.

An executor costs two futures, several hand-overs of the interpreter and a wake-up for each file: at
a thousand rounds a second that was more than the syncs themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar

THREADS: Final = 4
"""Calls at a time; more are dealt out to them."""
T = TypeVar("T")


class SyncThreads:
    """Each thread begins when it is first needed. After `close` nothing more is taken; what
    was asked for before still runs."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Share | None] = SimpleQueue()
        self._thread_count = 0
        self._share_count = 0
        """Asked for and not told to have ended."""
        self._running = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._is_closed = False

    async def pause(self, seconds_max: float) -> None:
        """Returns at once when nothing is synced, else as soon as that ends, after `seconds_max` at
        the latest.
        """
        if self._running:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(ended)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds_max):
                    await ended

    async def run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """What each of `works` gives, in their order; raises what one of them raised, when all have
        ended. A caller that is cancelled leaves them running. Raises RuntimeError after `close`, as
        an executor does: nobody would ever wake the caller; also when no thread can be begun.
        """
        if self._is_closed:
            raise RuntimeError("the disk is closed: nothing more is synced")
        if not works:
            return []
        count = min(len(works), THREADS)
        self._start(self._share_count + count)
        self._share_count += count
        together = _Together(asyncio.get_running_loop(), works, count)
        for number in range(count):
            self._queue.put((together, number))
        self._running += 1
        try:
            await together.done
        finally:
            self._running -= 1
            self._share_count -= count
            if self._waiting and not self._running:
                self._end_pauses()
        return together.results

    def close(self) -> None:
        """Never waits for the device."""
        self._is_closed = True
        for _ in range(self._thread_count):
            self._queue.put(None)

    def _end_pauses(self) -> None:
        for ended in self._waiting:
            if not ended.done():  # it waited for too long, or was given up
                ended.set_result(None)
        self._waiting.clear()

    def _start(self, wanted: int) -> None:
        """Begin threads until there are `wanted`, at most THREADS; fewer where the system gives no
        more. Raises RuntimeError when there is none.
        """
        while self._thread_count < min(wanted, THREADS):
            name = f"disk-round_{self._thread_count}"
            thread = threading.Thread(target=_work, args=(self._queue,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the process, or its user, has as many as it may have
                if not self._thread_count:
                    raise
                return
            self._thread_count += 1


class _Together:
    """What `count` threads do for one caller; the last of them settles `done`."""

    __slots__ = ("_count", "_error", "_guard", "_left", "_loop", "_works", "done", "results")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, works: Sequence[Callable[[], Any]], count: int
    ) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        self.results: list[Any] = [None] * len(works)
        self._loop = loop
        self._works = works
        self._count = count
        self._error: BaseException | None = None
        self._guard = threading.Lock()
        self._left = count

    def do_share(self, number: int) -> None:
        """In a thread: every `count`th of the calls, from `number` on."""
        try:
            for place in range(number, len(self._works), self._count):
                self.results[place] = self._works[place]()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self._error = error
        with self._guard:
            self._left -= 1
            is_last = not self._left
        if is_last:
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.done.done():
            return
        if self._error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self._error)


_Share = tuple[_Together, int]


def _work(queue: SimpleQueue[_Share | None]) -> None:
    while (share := queue.get()) is not None:
        together, number = share
        together.do_share(number)
        del share, together  # an idle thread keeps no file alive
