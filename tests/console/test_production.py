"""The console on PostgreSQL and Redis: two processes, one sampler, and what if it dies; how many
connections to the database it takes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import psycopg
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

    async def sign_in(self) -> None:
        link = self._console.sign_in_link
        async with self._session.get(link) as page:
            text = await page.text()
        token = text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        async with self._session.post(link, data={"csrfmiddlewaretoken": token}) as answer:
            assert answer.status in {200, 404}, "signed in; the overview may wait for a sample"

    async def open(self) -> None:
        await self.sign_in()
        address = self._console.address
        self._socket = await self._session.ws_connect(
            f"{address}/ws/live", headers={"Origin": address}
        )
        await self._socket.send_json({"type": "subscribe", "view": "groups", "cluster": "local"})

    async def status(self, path: str, patience_s: float = 60.0) -> int:
        """What a page is answered with; 0 when the browser left before."""
        try:
            async with (
                asyncio.timeout(patience_s),
                self._session.get(f"{self._console.address}{path}") as page,
            ):
                await page.read()
                return page.status
        except TimeoutError:
            return 0

    async def frame(self) -> tuple[int, str]:
        """The next frame's sequence number and time."""
        frame = await self._socket.receive_json(timeout=40)
        assert "app" in frame["html"]["live-groups"]
        return int(frame["sequence"]), frame["at_ms"]

    async def __aenter__(self) -> Socket:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._session.close()


PAGES = ("/accounts/users/", "/audit/", "/clusters/", "/api/admin/v1/clusters")
CONNECTIONS = 4


def connections(database: psycopg.Connection) -> set[int]:
    """The process ids of the database's connections but for this one."""
    rows = database.execute(
        "SELECT pid FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    return {int(pid) for (pid,) in rows}


def sampled_count(database: psycopg.Connection) -> int:
    """Clusters with a newest snapshot."""
    found = database.execute("SELECT count(*) FROM samples_clusterlatest").fetchone()
    assert found is not None
    return int(found[0])


async def test_requests_share_a_few_connections_and_none_stays_with_who_left(
    tmp_path: Path, free_port: FreePort
) -> None:
    async with AsyncExitStack() as stack:
        address = stack.enter_context(postgresql(free_port()))
        variables = {
            "HERMES_DATABASE_URL": address,
            "HERMES_DATABASE_CONNECTIONS": str(CONNECTIONS),
            "HERMES_REDIS_URL": stack.enter_context(redis(free_port(), tmp_path)),
        }
        console = stack.enter_context(
            ConsoleProcess(
                tmp_path / "console",
                bootstrap=f"127.0.0.1:{free_port()}",
                arguments=("--tasks",),
                variables=variables,
            )
        )
        database = stack.enter_context(psycopg.connect(address, autocommit=True))
        browser = await stack.enter_async_context(Socket(console))
        await browser.sign_in()
        seen = connections(database)
        for _ in range(5):
            left = [browser.status(path, 0.02 * number) for number in range(4) for path in PAGES]
            stayed = [browser.status(path) for path in PAGES for _ in range(4)]
            answers = await asyncio.gather(*left, *stayed)
            assert answers[len(left) :] == [200] * len(stayed)
            seen |= connections(database)
        assert len(seen) <= CONNECTIONS, "the same few, again and again"
        # A database that was restarted: nobody meets a connection that is gone.
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        assert [await browser.status(path) for path in PAGES] == [200] * len(PAGES)
        assert not connections(database) & seen


async def test_more_clusters_than_connections_leave_some_for_requests(
    tmp_path: Path, free_port: FreePort
) -> None:
    async with AsyncExitStack() as stack:
        address = stack.enter_context(postgresql(free_port()))
        variables = {
            "HERMES_DATABASE_URL": address,
            "HERMES_DATABASE_CONNECTIONS": str(CONNECTIONS),
            "HERMES_REDIS_URL": stack.enter_context(redis(free_port(), tmp_path)),
        }
        console = stack.enter_context(
            ConsoleProcess(
                tmp_path / "console", bootstrap=f"127.0.0.1:{free_port()}", variables=variables
            )
        )
        database = stack.enter_context(psycopg.connect(address, autocommit=True))
        browser = await stack.enter_async_context(Socket(console))
        await browser.sign_in()
        count = 2 * CONNECTIONS
        for number in range(count):
            database.execute(
                "INSERT INTO console_cluster"
                " (name, bootstrap_address, metrics_address, kind, is_from_environment)"
                " VALUES (%s, %s, '', 'ours', false)",
                (f"other-{number}", f"127.0.0.1:{free_port()}"),
            )
        async with asyncio.timeout(60):
            while sampled_count(database) <= count:
                await asyncio.sleep(0.2)
        seen: set[int] = set()
        for _ in range(10):
            assert [await browser.status(path) for path in PAGES] == [200] * len(PAGES)
            seen |= connections(database)
        assert len(seen) <= CONNECTIONS, "the same few, again and again"
        assert "could not be stored" not in console.log


async def test_whoever_waits_for_a_cluster_keeps_no_connection_from_others(
    tmp_path: Path, free_port: FreePort
) -> None:
    async with AsyncExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        variables = {
            "HERMES_DATABASE_URL": stack.enter_context(postgresql(free_port())),
            "HERMES_DATABASE_CONNECTIONS": str(CONNECTIONS),
            "HERMES_REDIS_URL": stack.enter_context(redis(free_port(), tmp_path)),
        }
        console = stack.enter_context(
            ConsoleProcess(
                tmp_path / "console",
                bootstrap=f"127.0.0.1:{silent.getsockname()[1]}",
                variables=variables,
            )
        )
        browser = await stack.enter_async_context(Socket(console))
        await browser.sign_in()
        async with asyncio.TaskGroup() as group:
            waiting = [
                group.create_task(browser.status("/clusters/local/topics/orders/"))
                for _ in range(2 * CONNECTIONS)
            ]
            await asyncio.sleep(0.5)
            answers = [await browser.status("/accounts/users/", patience_s=4) for _ in range(3)]
            assert not any(task.done() for task in waiting), "they all wait for the cluster"
            assert answers == [200] * 3


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
