"""The console on PostgreSQL and Redis: two processes, one sampler, and what if it dies."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from tests.console.console_process import ROOT, ConsoleProcess
from tests.console.services import FreePort, postgresql, redis
from tests.console.test_sampling import commit_some
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.apt("postgresql", "redis-server"), pytest.mark.timeout(180)]


class Socket:
    """A signed-in live socket of one console."""

    def __init__(self, console: ConsoleProcess) -> None:
        self._console = console
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def open(self) -> None:
        link = self._console.sign_in_link
        async with self._session.get(link) as page:
            text = await page.text()
        token = text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        async with self._session.post(link, data={"csrfmiddlewaretoken": token}) as answer:
            assert answer.status in {200, 404}, "signed in; the overview may wait for a sample"
        address = self._console.address
        self._socket = await self._session.ws_connect(
            f"{address}/ws/live", headers={"Origin": address}
        )
        await self._socket.send_json({"type": "subscribe", "view": "groups", "cluster": "local"})

    async def frame(self) -> tuple[int, str]:
        """The next frame's sequence number and time."""
        frame = await self._socket.receive_json(timeout=40)
        assert "app" in frame["html"]["live-groups"]
        return int(frame["sequence"]), frame["at_ms"]

    async def __aenter__(self) -> Socket:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._session.close()


async def test_two_consoles_share_one_sampler_and_survive_its_death(
    tmp_path: Path, free_port: FreePort
) -> None:
    async with AsyncExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(tmp_path))
        commit_some(broker.bootstrap)
        variables = {
            "HERMES_DATABASE_URL": stack.enter_context(postgresql(free_port())),
            "HERMES_REDIS_URL": stack.enter_context(redis(free_port(), tmp_path)),
            "HERMES_SECRET_KEY": "one secret for all processes of this installation",
        }
        subprocess.run(
            [sys.executable, "manage.py", "prepare"],
            cwd=ROOT,
            env={**os.environ, **variables, "HERMES_BOOTSTRAP": broker.bootstrap},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        consoles = [
            stack.enter_context(
                ConsoleProcess(
                    tmp_path / name,
                    bootstrap=broker.bootstrap,
                    arguments=("--no-prepare",),
                    variables=variables,
                )
            )
            for name in ("first", "second")
        ]
        sockets = [await stack.enter_async_context(Socket(console)) for console in consoles]
        for socket in sockets:
            await socket.open()
        seen = [dict([await socket.frame() for _ in range(4)]) for socket in sockets]
        assert all(len(frames) == 4 for frames in seen), "no frame comes twice"
        assert all(list(frames) == sorted(frames) for frames in seen)
        common = set(seen[0]) & set(seen[1])
        assert common, "both follow the same sampler"
        assert all(seen[0][number] == seen[1][number] for number in common), "and see one history"
        assert consoles[0].process is not None
        consoles[0].process.kill()  # the first one started: it holds the lease
        last = max(seen[1])
        for least in (last + 1, last + 2):
            sequence, _ = await sockets[1].frame()
            assert sequence >= least
