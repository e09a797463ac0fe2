"""The live socket of a real console: frames of every size, hostile ones, foreign origins."""

from __future__ import annotations

import asyncio
import http.cookiejar
import json
import urllib.request
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from broker.client.blocking import BlockingClient, NewTopic, TopicPartition
from hermes_console.runner import WEBSOCKET_FRAME_BYTES_MAX
from tests.console.console_process import ConsoleProcess
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(240)
GROUPS = 60
WAIT_S = 60
SUBSCRIBE = {"type": "subscribe", "view": "groups", "cluster": "local", "parameters": {}}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("live-server")
    with BrokerProcess(directory) as broker:
        client = BlockingClient(broker.bootstrap, timeout_ms=30_000)
        client.create_topics([NewTopic("orders", 1, 1, {})])
        for number in range(GROUPS):
            client.set_committed_offsets(f"group-{number:03d}", {TopicPartition("orders", 0): 0})
        client.close()
        with ConsoleProcess(directory / "console", bootstrap=broker.bootstrap) as console:
            yield console


@pytest.fixture(scope="module")
def cookies(console: ConsoleProcess) -> dict[str, str]:
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    with opener.open(console.sign_in_link) as answer:
        token = answer.read().decode().split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    body = f"csrfmiddlewaretoken={token}".encode()
    opener.open(urllib.request.Request(console.sign_in_link, body)).close()
    return {cookie.name: cookie.value or "" for cookie in jar}


@asynccontextmanager
async def live(console: ConsoleProcess, cookies: dict[str, str], origin: str | None = "") -> Any:
    headers = {} if origin is None else {"Origin": origin or console.address}
    async with (
        aiohttp.ClientSession(console.address, cookies=cookies) as session,
        session.ws_connect("/ws/live", headers=headers) as socket,
    ):
        yield socket


async def frame_of(socket: Any) -> dict[str, Any]:
    async with asyncio.timeout(WAIT_S):
        message = await socket.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return dict(json.loads(message.data))


async def test_frame_of_a_long_list_is_larger_than_what_a_browser_may_send(
    console: ConsoleProcess, cookies: dict[str, str]
) -> None:
    async with live(console, cookies) as socket:
        await socket.send_json(SUBSCRIBE)
        sizes, sequences = [], []
        while len(sequences) < 3 or max(sizes) <= WEBSOCKET_FRAME_BYTES_MAX:
            frame = await frame_of(socket)
            sizes.append(len(json.dumps(frame)))
            sequences.append(int(frame["sequence"]))
        assert sequences == sorted(set(sequences))
        assert "group-000" in frame["html"]["live-groups"]


@pytest.mark.parametrize("size", [WEBSOCKET_FRAME_BYTES_MAX + 1, 1024 * 1024])
async def test_frame_that_is_too_large_ends_the_socket_and_nothing_else(
    console: ConsoleProcess, cookies: dict[str, str], size: int
) -> None:
    async with live(console, cookies) as socket, live(console, cookies) as other:
        await socket.send_str("x" * size)
        async with asyncio.timeout(WAIT_S):
            message = await socket.receive()
        assert message.type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}
        assert socket.close_code in {1006, 1009}
        await other.send_json(SUBSCRIBE)
        assert (await frame_of(other))["type"] == "snapshot"


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:1"])
async def test_socket_that_another_page_opened_is_refused(
    console: ConsoleProcess, cookies: dict[str, str], origin: str | None
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with live(console, cookies, origin):
            pass
    assert refused.value.status == 403


async def test_socket_without_a_session_is_refused(console: ConsoleProcess) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with live(console, {}):
            pass
    assert refused.value.status == 403
