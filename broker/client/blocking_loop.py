"""A thread with an event loop and a cluster of its own, for code without an event loop.

Not here: what is asked (blocking). Every call ends within its timeout, by a result or a
ClientError; the thread starts with the first call. One object may be used by many threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from broker.client.cluster import Cluster
from broker.client.failure import ClientError, TimedOut, Unsupported
from broker.config.client import ClientSettings
from broker.runtime.clock import SystemClock
from broker.runtime.guarded import GuardedNetwork, Permit
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork

T = TypeVar("T")
GRACE_S: Final = 2.0
"""How much longer than its timeout a call may take before its thread is given up."""


class BlockingLoop:
    """`close` it. `on_close` is awaited on the loop first of all when it is closed. With `permit`
    connections go only where it allows, to the cluster's own addresses too.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str,
        timeout_ms: int,
        on_close: Callable[[], Awaitable[None]],
        permit: Permit | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self._network = SystemNetwork() if permit is None else GuardedNetwork(permit)
        self.timeout_ms = timeout_ms
        self._settings = settings_for(bootstrap, client_id=client_id, timeout_ms=timeout_ms)
        self._on_close = on_close
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._cluster: Cluster | None = None
        self._is_closed = False

    def close(self) -> None:
        """End connections and the thread; calls that wait fail. Closing twice is fine."""
        with self._lock:
            self._is_closed = True
            loop, thread = self._loop, self._thread
            self._loop = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(), loop)
        thread.join(GRACE_S)

    def run(self, work: Callable[[Cluster], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """The result of `work`, which runs on the loop. Raises what it raises, or TimedOut."""
        allowed_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        return self.result_of(self.submit(work, timeout_ms=allowed_ms), allowed_ms)

    def submit(
        self, work: Callable[[Cluster], Awaitable[T]], *, timeout_ms: int
    ) -> concurrent.futures.Future[T]:
        """`work` begins on the loop; `result_of` waits for it."""
        loop = self._start()
        assert threading.current_thread() is not self._thread, "a call from the client's own thread"
        return asyncio.run_coroutine_threadsafe(self._bounded(work, timeout_ms), loop)

    def result_of(self, future: concurrent.futures.Future[T], timeout_ms: int) -> T:
        """What was submitted. Raises what it raises, or TimedOut."""
        try:
            return future.result(timeout_ms / 1000 + GRACE_S)
        except concurrent.futures.TimeoutError:
            future.cancel()
            msg = f"no result within {timeout_ms} ms"
            raise TimedOut(msg) from None
        except concurrent.futures.CancelledError:
            msg = "the client was closed"
            raise ClientError(msg) from None

    def call_soon(self, act: Callable[[], None]) -> None:
        """Do it on the loop, some time soon; not at all when that is closed."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(act)

    async def _bounded(self, work: Callable[[Cluster], Awaitable[T]], timeout_ms: int) -> T:
        assert self._cluster is not None, "the loop runs with a cluster"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await work(self._cluster)
        except TimeoutError:
            msg = f"no result within {timeout_ms} ms from {self.bootstrap}"
            raise TimedOut(msg) from None

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                msg = "the client is closed"
                raise ClientError(msg)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._cluster = Cluster(self._network, SystemClock(), SystemIds(), self._settings)
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="hermes-client", daemon=True
                )
                self._thread.start()
            return self._loop

    async def _shut_down(self) -> None:
        loop = asyncio.get_running_loop()
        me = asyncio.current_task()
        await self._on_close()
        if self._cluster is not None:
            await self._cluster.close()
        others = [task for task in asyncio.all_tasks() if task is not me]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=GRACE_S / 2)
        loop.call_soon(loop.stop)


def settings_for(bootstrap: str, *, client_id: str, timeout_ms: int) -> ClientSettings:
    """A client's settings for "host:port,host:port". Raises Unsupported when it names none."""
    servers = tuple(part.strip() for part in bootstrap.split(",") if part.strip())
    if not servers:
        msg = "no bootstrap address"
        raise Unsupported(msg)
    return ClientSettings(
        bootstrap_servers=servers,
        client_id=client_id,
        request_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_ms=max(1, timeout_ms // 2),
        delivery_timeout_ms=timeout_ms,
        linger_ms=0,
    )


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
