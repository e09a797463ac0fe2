"""A whole installation (`hermes up --demo`) and a browser for the tests of this directory.

Nothing is simulated: broker, console and demo are the processes that a user gets.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.support import with_kafka
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
READY_S_MAX = 60.0
STOP_S_MAX = 40.0
READY = re.compile(r"HermesMQ is ready: Kafka (\S+) .*?console (\S+) .*?sign in once: (\S+)")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EXPECT_MS = 30_000
"""What a page is given to show something: a machine that does more than this is slow, not wrong."""
SCREENSHOTS = "HERMES_SCREENSHOTS"
"""Names the directory that pictures of the pages go to; without it they go to a temporary one."""

expect.set_options(timeout=EXPECT_MS)


@dataclass(frozen=True)
class Installation:
    """Where a running `hermes up --demo` answers."""

    console: str
    sign_in_link: str
    kafka: str
    data: Path


@dataclass
class Watched:
    """A page and what went wrong on it: errors of scripts, of loading, of the security policy."""

    page: Page
    problems: list[str] = field(default_factory=list)


@contextmanager
def running_installation(data: Path) -> Iterator[Installation]:
    """`hermes up --demo` on free ports, ready inside, stopped afterwards as by Ctrl-C."""
    log = data / "up.log"
    flags = ("--kafka-port", "--gateway-port", "--console-port", "--metrics-port")
    ports = [word for flag in flags for word in (flag, str(free_port()))]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "broker", "up", "--demo", "--data", data, *ports],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        end = time.monotonic() + READY_S_MAX
        while not (ready := READY.search(log.read_text())):
            assert process.poll() is None, f"hermes up ended: {log.read_text()}"
            assert time.monotonic() < end, f"hermes up is not ready: {log.read_text()}"
            time.sleep(0.1)
        yield Installation(ready[2], ready[3], ready[1], data)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S_MAX) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    executable = next(filter(None, map(shutil.which, CHROMIUM)))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield browser
        await browser.close()


async def sign_in(context: BrowserContext, installation: Installation) -> None:
    """By the one-time link, which works once in an installation."""
    page = await context.new_page()
    await page.goto(installation.sign_in_link)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/clusters/local/")
    await page.close()


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_installation(tmp_path_factory.mktemp("up")) as installation:
        yield installation


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[str]:
    """The bootstrap address of an Apache Kafka of this session, gone afterwards."""
    with with_kafka.apache_kafka() as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
async def cookies(browser: Browser, installation: Installation) -> list[dict[str, object]]:
    """The session that the one-time link gives: the link is used once for all tests."""
    context = await browser.new_context()
    await sign_in(context, installation)
    found = await context.cookies()
    await context.close()
    return found  # type: ignore[return-value]


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def context(
    browser: Browser, installation: Installation, cookies: list[dict[str, object]]
) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(
        base_url=installation.console, viewport={"width": 1360, "height": 860}
    )
    await context.add_cookies(cookies)  # type: ignore[arg-type]
    yield context
    await context.close()


@pytest.fixture
async def watched(context: BrowserContext) -> AsyncIterator[Watched]:
    """A page; the test fails when a script fails or the security policy refuses something."""
    page = await context.new_page()
    watched = Watched(page)
    page.on("pageerror", lambda error: watched.problems.append(f"script: {error}"))
    page.on(
        "console",
        lambda message: (
            watched.problems.append(f"{message.type}: {message.text}")
            if message.type in {"error", "warning"}
            else None
        ),
    )
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) =>"
        " console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));"
    )
    yield watched
    assert without_given_up(watched.problems) == []


def without_given_up(problems: list[str]) -> list[str]:
    """Without the two lines htmx logs for each request that the page gave up itself: a newer one
    took its place, or the page was left. A request that failed is told of as `htmx:sendError`.
    """
    kept: list[str] = []
    for problem in problems:
        if problem.startswith("error: htmx:sendAbort") and kept:
            assert kept.pop().startswith("error: htmx:afterRequest")
        else:
            kept.append(problem)
    return kept


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = Path(os.environ.get(SCREENSHOTS) or tmp_path_factory.mktemp("screenshots"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory
