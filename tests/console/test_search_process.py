"""Searches on whole installations: the embedded console with its own worker, and PostgreSQL and
Redis with workers of their own, one of which dies and one of which gets a task twice.
"""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest

from tests.console.console_process import ROOT, ConsoleProcess
from tests.console.kafka_world import World
from tests.console.services import FreePort, postgresql, redis
from tests.console.test_messages import put
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(240)
WAIT_S_MAX = 90.0


class Browser:
    """A signed-in session of one console, for its API."""

    def __init__(self, console: ConsoleProcess) -> None:
        self._address = console.address
        self._jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))
        page = self._opener.open(console.sign_in_link).read().decode()
        token = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        form = urlencode({"csrfmiddlewaretoken": token}).encode()
        with contextlib.suppress(HTTPError):  # signed in; the overview may wait for a sample
            self._opener.open(console.sign_in_link, form)

    def call(self, path: str, body: object = None) -> Any:
        """The answer to a GET, or to a POST of `body`."""
        headers = {"Origin": self._address}
        token = next(one.value for one in self._jar if one.name.startswith("hermes_csrf"))
        if body is not None:
            headers |= {"Content-Type": "application/json", "X-CSRFToken": token or ""}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data, headers)
        return json.loads(self._opener.open(request).read())

    def wait(self, path: str, condition: Callable[[Any], bool]) -> Any:
        """The first answer that fits."""
        end = time.monotonic() + WAIT_S_MAX
        while not condition(found := self.call(path)):
            assert time.monotonic() < end, f"it never happened; the last was {found}"
            time.sleep(0.2)
        return found


def fill(world: World, count: int = 20_000) -> str:
    topic = world.topic(partitions=2, records=0)
    put(world, topic, [(b"k%d" % number, b"x" * 900) for number in range(count)])
    put(world, topic, [(b"needle", b"here")], partition=1)
    return topic


def address(topic: str) -> str:
    return f"/api/admin/v1/clusters/local/topics/{topic}/records"


def test_the_embedded_console_searches_by_itself(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topic = fill(World(broker.bootstrap))
        with ConsoleProcess(tmp_path / "console", bootstrap=broker.bootstrap) as console:
            browser = Browser(console)
            body = {"key_equals": {"content": "needle"}}
            job = browser.call(f"{address(topic)}/searches", body)
            path = f"{address(topic)}/searches/{job['key']}"
            done = browser.wait(path, lambda found: found["state"] != "running")
            assert done["state"] == "done", done
            assert done["scanned_records"] == "20001"
            (hit,) = browser.call(f"{path}/found")["found"]
            assert hit["record"]["value"]["content"] == "here"


@contextmanager
def worker(directory: Path, variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    words = ("-c", "1", "-P", "solo", "-n", f"{directory.name}@test", "--without-gossip")
    with celery(directory, variables, "worker", *words, "--without-mingle") as process:
        yield process


@contextmanager
def celery(
    directory: Path, variables: dict[str, str], *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of an installation's own, in a new directory; killed at the end."""
    directory.mkdir()
    with (directory / "celery.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "hermes_console.celery", *words],
            cwd=ROOT,
            env={**os.environ, **variables, "HERMES_DATA_DIR": str(directory)},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run_python(code: str, variables: dict[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-c", f"import django; django.setup(); {code}"],
        cwd=ROOT,
        env={**os.environ, **variables, "DJANGO_SETTINGS_MODULE": "hermes_console.settings"},
        check=True,
    )


@pytest.mark.apt("postgresql", "redis-server")
def test_workers_share_a_search_and_a_death_or_a_second_delivery_changes_nothing(
    tmp_path: Path, free_port: FreePort
) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(tmp_path))
        topic = fill(World(broker.bootstrap))
        variables = {
            "HERMES_DATABASE_URL": stack.enter_context(postgresql(free_port())),
            "HERMES_REDIS_URL": stack.enter_context(redis(free_port(), tmp_path)),
            "HERMES_SECRET_KEY": "one secret for all processes of this installation",
            "HERMES_DATA_DIR": str(tmp_path / "shared"),
            "HERMES_BOOTSTRAP": broker.bootstrap,
        }
        console = stack.enter_context(
            ConsoleProcess(
                tmp_path / "console",
                bootstrap=broker.bootstrap,
                variables={
                    name: value for name, value in variables.items() if name != "HERMES_DATA_DIR"
                },
            )
        )
        browser = Browser(console)
        body = {"value_contains": {"content": "x"}}
        job = browser.call(f"{address(topic)}/searches", body)
        path = f"{address(topic)}/searches/{job['key']}"
        # Nobody has taken the first slice: it waits in Redis. It is sent three times more.
        task = (
            "from hermes_console.searches.tasks import search_slice;"
            f"[search_slice.delay({job['key']!r}, 0) for _ in range(3)]"
        )
        run_python(task, variables)
        first = stack.enter_context(worker(tmp_path / "first", variables))
        stack.enter_context(worker(tmp_path / "second", variables))
        done = browser.wait(path, lambda found: found["state"] != "running")
        assert done["state"] == "full", done
        assert done["found_count"] == 500
        places = [
            (one["partition"], one["offset"])
            for one in browser.call(f"{path}/found?limit=100")["found"]
        ]
        assert len(places) == len(set(places)) == 100
        first.send_signal(signal.SIGKILL)
        browser.call(f"{path}/resume", {})
        # The dying worker may have taken the task with it: then beat asks for it again.
        stack.enter_context(
            celery(tmp_path / "beat", variables, "beat", "-s", str(tmp_path / "beat.schedule"))
        )
        done = browser.wait(path, lambda found: found["state"] != "running")
        assert (done["state"], done["found_count"]) == ("full", 1_000)


@pytest.mark.apt("redis-server")
def test_a_search_that_starts_while_the_queue_is_down_waits_for_it(
    tmp_path: Path, free_port: FreePort
) -> None:
    port = free_port()
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(tmp_path))
        topic = fill(World(broker.bootstrap), count=100)
        variables = {"HERMES_REDIS_URL": f"redis://127.0.0.1:{port}/0"}
        with redis(port, tmp_path):
            console = stack.enter_context(
                ConsoleProcess(
                    tmp_path / "console",
                    bootstrap=broker.bootstrap,
                    variables=variables,
                    arguments=("--tasks",),
                )
            )
            browser = Browser(console)
        body = {"key_equals": {"content": "needle"}}
        job = browser.call(f"{address(topic)}/searches", body)
        path = f"{address(topic)}/searches/{job['key']}"
        assert job["state"] == "running"
        assert "the task queue cannot be reached" in job["reason"]
        browser.call(f"{path}/cancel", {})
        assert "the task queue cannot be reached" in browser.call(f"{path}/resume", {})["reason"]
        stack.enter_context(redis(port, tmp_path))
        done = browser.wait(path, lambda found: found["state"] != "running")
        assert (done["state"], done["found_count"]) == ("done", 1)
