"""Starts the children in order, keeps them running, stops them in reverse.

Broker, console and gateway start at once, the demo when the broker answers; the line `HermesMQ is
ready` follows when all of them do. A child that ends before that fails the whole command (its last
lines are printed); afterwards it is started again with back-off.
The order of a stop: demo, gateway, console, broker. A second signal kills what is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.up.backoff import Backoff
from broker.up.child import Child, Ended
from broker.up.health import POLL_S, wait_until_answering
from broker.up.logfile import LogFile
from broker.up.options import UpOptions
from broker.up.plan import (
    ChildPlan,
    broker_plan,
    console_plan,
    demo_plan,
    gateway_plan,
    sign_in_link_file,
)

READY_S_MAX: Final = 60.0
LINK_S_MAX: Final = 10.0
ROTATION_CHECK_S: Final = 2.0

Say = Callable[[str], None]


class StartFailure(Exception):
    """The command cannot go on; the message is for its user."""


class Supervisor:
    """One `hermes up`. `await run()` returns the exit code once everything has stopped."""

    def __init__(self, options: UpOptions, say: Say) -> None:
        self._options = options
        self._say = say
        self._stop = asyncio.Event()
        self._is_ready = False
        self._children: list[Child] = []

    async def run(self) -> int:
        """0 after a requested stop, 1 when a start failed, 130 after a second signal."""
        self._listen_to_signals()
        code = 0
        try:
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(self._work())
                stopping = tasks.create_task(self._stop.wait())
                await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
                work.cancel()
                stopping.cancel()
        except* StartFailure as failures:
            for failure in _flat(failures):
                self._say(f"hermes up: {failure}")
            code = 1
        return await self._stop_children() or code

    async def _work(self) -> None:
        """Start everything and keep it running; never returns by itself."""
        python = sys.executable
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._rotate_logs())
            broker = self._child(broker_plan(self._options, python))
            tasks.create_task(self._keep_running(broker))
            own_ports = os.environ.get("HERMES_OWN_PORTS", "")
            console = self._child(console_plan(self._options, python, own_ports))
            tasks.create_task(self._keep_running(console))
            gateway = self._child(gateway_plan(self._options, python))
            tasks.create_task(self._keep_running(gateway))
            await self._wait_until_ready(broker)
            if self._options.with_demo:
                demo = self._child(demo_plan(self._options, python))
                tasks.create_task(self._keep_running(demo))
            await self._wait_until_ready(gateway)
            await self._wait_until_ready(console)
            link = await self._sign_in_link(console)
            self._is_ready = True
            self._say(ready_line(self._options, link))

    def _child(self, plan: ChildPlan) -> Child:
        child = Child(plan, LogFile(self._options.logs, plan.name))
        self._children.append(child)
        return child

    async def _keep_running(self, child: Child) -> None:
        """Start the child; whenever it ends, say why and start it again after the back-off."""
        backoff = Backoff()
        wait = child.wait
        while True:
            try:
                await child.start()
            except OSError as error:
                msg = f"{child.plan.name} could not be started: {error}"
                raise StartFailure(msg) from error
            ended = await wait()
            if not self._is_ready:
                raise StartFailure(_failed_start(child, ended))
            backoff = backoff.after_crash(ended.ran_s)
            self._say(_crash(child, ended, backoff.delay_s))
            await asyncio.sleep(backoff.delay_s)
            wait = partial(self._wait_and_tell_return, child)

    async def _wait_and_tell_return(self, child: Child) -> Ended:
        """How the restarted process ended; says so when it answers before that."""
        async with asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(self._tell_return(child))
            ended = await child.wait()
            telling.cancel()
        return ended

    async def _tell_return(self, child: Child) -> None:
        if child.plan.ready_url is not None:
            await wait_until_answering(child.plan.ready_url)
            self._say(f"{child.plan.name}: answers again (process {child.pid})")

    async def _wait_until_ready(self, child: Child) -> None:
        if child.plan.ready_url is None:
            return
        try:
            async with asyncio.timeout(READY_S_MAX):
                await wait_until_answering(child.plan.ready_url)
        except TimeoutError:
            last = "\n".join(child.log.tail(child.log_start))
            msg = f"{child.plan.name} did not answer {child.plan.ready_url} in {READY_S_MAX:.0f} s"
            raise StartFailure(f"{msg}; the end of {child.log.path}:\n{last}") from None

    async def _sign_in_link(self, console: Child) -> str:
        """What the console left in its file, which goes; or how to get a link when there is none in
        time.
        """
        file = sign_in_link_file(self._options)
        end = time.monotonic() + LINK_S_MAX
        while time.monotonic() < end:
            if file.exists():
                link = file.read_text().strip()
                file.unlink()
                return link
            await asyncio.sleep(POLL_S)
        return f"{self._options.console_url} (`python manage.py signin_link` makes a link)"

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(ROTATION_CHECK_S)
            for child in self._children:
                child.log.rotate_if_large()

    async def _stop_children(self) -> int:
        """Stop in reverse order; 0, or 130 when a second signal made it a kill."""
        killing = asyncio.Event()
        self._listen_to_signals(killing)
        stopping = asyncio.create_task(self._stop_in_order(killing))
        told = asyncio.create_task(killing.wait())
        await asyncio.wait({stopping, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if killing.is_set():
            killed = ", ".join(child.plan.name for child in self._running())
            for child in self._children:
                child.kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping, timeout=5)
            self._say(f"hermes up: killed {killed}")
            return 130
        self._say(f"hermes up: all is stopped, the data is in {self._options.data}")
        return 0

    async def _stop_in_order(self, killing: asyncio.Event) -> None:
        for child in self._running():
            is_in_time = await child.stop()
            if killing.is_set():
                return
            if is_in_time:
                self._say(f"{child.plan.name}: stopped")
            else:
                grace_s = child.plan.grace_s
                self._say(f"{child.plan.name} did not stop within {grace_s:.0f} s: killed")

    def _running(self) -> list[Child]:
        """In the order in which they are stopped."""
        return [child for child in reversed(self._children) if child.is_running]

    def _listen_to_signals(self, killing: asyncio.Event | None = None) -> None:
        """The first signal stops; once `killing` is given, the next one sets it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal, killing)

    def _on_signal(self, killing: asyncio.Event | None) -> None:
        if killing is not None:
            killing.set()
        elif not self._stop.is_set():
            self._stop.set()
            names = ", ".join(child.plan.name for child in self._running()) or "what has started"
            self._say(f"stopping {names} (once more to kill) …")


def ready_line(options: UpOptions, link: str) -> str:
    """The one line that says where everything is."""
    return (
        f"HermesMQ is ready: Kafka {options.bootstrap} | gateway {options.gateway_url} | "
        f"console {options.console_url} | metrics {options.metrics_url}/metrics | "
        f"sign in once: {link}"
    )


def _flat(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _failed_start(child: Child, ended: Ended) -> str:
    lines = child.log.tail(child.log_start)
    heading = f"{child.plan.name} did not start: {ended.describe()}"
    if not lines:
        return f"{heading} and wrote nothing to {child.log.path}"
    return "\n".join([f"{heading}; the end of {child.log.path}:", *lines])


def _crash(child: Child, ended: Ended, delay_s: float) -> str:
    lines = child.log.tail(child.log_start)
    last = f" Its last line: {lines[-1].strip()}" if lines and ended.code > 0 else ""
    return (
        f"{child.plan.name}: {ended.describe()}; it starts again in {delay_s:g} s "
        f"(log: {child.log.path}).{last}"
    )
