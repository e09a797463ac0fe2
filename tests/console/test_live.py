"""Live sockets: who may connect from where, what they get, what they refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import connections

from hermes_console.accounts.models import User
from hermes_console.asgi import LIVE_VIEWS, application
from hermes_console.clusters import Cluster
from hermes_console.content import LiveContent
from hermes_console.live.consumer import (
    SESSION_CHECK_S,
    BadMessage,
    first_check_s,
    read_message,
    read_subscription,
)
from hermes_console.live.origin import is_same_origin
from hermes_console.live.topic import cluster_group
from hermes_console.live.views import LiveView
from hermes_console.samples.snapshot import ClusterSnapshot
from tests.console.conftest import group

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
ORIGIN = b"http://127.0.0.1:8000"
HOST = b"127.0.0.1:8000"
WAIT_S = 30.0
"""What a frame may take: a machine that does more than this is slow, not wrong."""
SUBSCRIBE = {"type": "subscribe", "view": "groups", "cluster": "local", "parameters": {}}


@pytest.fixture(autouse=True)
async def closed_connections() -> AsyncIterator[None]:
    """The thread of `database_sync_to_async` outlives the test, what it opened does not: PostgreSQL
    refuses to drop a database in use, and psycopg warns of a connection that nobody closed.
    """
    yield
    await database_sync_to_async(connections.close_all)()


@pytest.fixture
def session(user: User) -> SessionStore:
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return store


def socket(
    session: SessionStore | None, *, origin: bytes | None = ORIGIN, host: bytes = HOST
) -> Any:
    headers = [(b"host", host)]
    if origin is not None:
        headers.append((b"origin", origin))
    if session is not None:
        cookie = f"{settings.SESSION_COOKIE_NAME}={session.session_key}"
        headers.append((b"cookie", cookie.encode()))
    return WebsocketCommunicator(application, "/ws/live", headers=headers)


async def frame_of(communicator: Any) -> dict[str, Any]:
    return json.loads(await communicator.receive_from(timeout=WAIT_S))


async def test_subscriber_gets_a_frame_at_once_and_one_per_sample(
    session: SessionStore, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    await database_sync_to_async(store_groups)(group("app", lag=41))
    live = socket(session)
    assert (await live.connect(timeout=WAIT_S))[0]
    await live.send_json_to(SUBSCRIBE)
    first = await frame_of(live)
    assert (first["type"], first["view"], first["sequence"]) == ("snapshot", "groups", "7")
    assert ">41<" in first["html"]["live-groups"]
    await database_sync_to_async(store_groups)(group("app", lag=42), sequence=8)
    await get_channel_layer().group_send(
        cluster_group("local"), {"type": "sample.ready", "sequence": "8"}
    )
    second = await frame_of(live)
    assert second["sequence"] == "8"
    assert ">42<" in second["html"]["live-groups"]
    await live.disconnect(timeout=WAIT_S)


async def test_many_samples_at_once_are_one_frame(
    session: SessionStore, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    await database_sync_to_async(store_groups)(group("app"))
    live = socket(session)
    await live.connect(timeout=WAIT_S)
    await live.send_json_to(SUBSCRIBE)
    await frame_of(live)
    await database_sync_to_async(store_groups)(group("app"), sequence=8)
    for _ in range(20):
        await get_channel_layer().group_send(cluster_group("local"), {"type": "sample.ready"})
    assert (await frame_of(live))["sequence"] == "8"
    assert await live.receive_nothing(timeout=0.8)
    await live.disconnect(timeout=WAIT_S)


async def test_sample_that_two_processes_tell_of_is_sent_once(
    session: SessionStore, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    await database_sync_to_async(store_groups)(group("app"))
    live = socket(session)
    await live.connect(timeout=WAIT_S)
    await live.send_json_to(SUBSCRIBE)
    await frame_of(live)
    await get_channel_layer().group_send(cluster_group("local"), {"type": "sample.ready"})
    assert await live.receive_nothing(timeout=0.8)
    await live.disconnect(timeout=WAIT_S)


async def test_paused_socket_is_silent_until_it_resumes(
    session: SessionStore, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    await database_sync_to_async(store_groups)(group("app"))
    live = socket(session)
    await live.connect(timeout=WAIT_S)
    await live.send_json_to(SUBSCRIBE)
    await frame_of(live)
    await live.send_json_to({"type": "pause"})
    await get_channel_layer().group_send(cluster_group("local"), {"type": "sample.ready"})
    assert await live.receive_nothing(timeout=0.8)
    await live.send_json_to({"type": "resume"})
    assert (await frame_of(live))["view"] == "groups"
    await live.disconnect(timeout=WAIT_S)


async def test_detail_of_a_group_carries_its_newest_point(
    session: SessionStore, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    stored = await database_sync_to_async(store_groups)(group("app", lag=2**60, lag_seconds=3.25))
    live = socket(session)
    await live.connect(timeout=WAIT_S)
    await live.send_json_to({**SUBSCRIBE, "view": "group", "parameters": {"group": "app"}})
    frame = await frame_of(live)
    assert frame["points"]["points"] == [[stored.at_ms // 1000, str(2**60), 3.25]]
    assert "live-partitions" in frame["html"]
    await live.send_json_to({**SUBSCRIBE, "view": "group", "parameters": {"group": "gone"}})
    gone = await frame_of(live)
    assert "This group is gone" in gone["html"]["live-banner"]
    await live.disconnect(timeout=WAIT_S)


async def test_cluster_that_does_not_exist_is_silence(session: SessionStore) -> None:
    live = socket(session)
    await live.connect(timeout=WAIT_S)
    await live.send_json_to({**SUBSCRIBE, "cluster": "nope"})
    assert await live.receive_nothing(timeout=0.5)
    await live.disconnect(timeout=WAIT_S)


@pytest.mark.parametrize(
    "origin",
    [
        None,
        b"null",
        b"http://evil.example",
        b"http://127.0.0.1:8001",
        b"http://127.0.0.1.evil:8000",
        b"\xff",
    ],
)
async def test_foreign_null_or_missing_origin_is_refused(
    session: SessionStore, origin: bytes | None
) -> None:
    accepted, _ = await socket(session, origin=origin).connect(timeout=WAIT_S)
    assert not accepted


async def test_host_that_is_not_ours_is_refused(session: SessionStore) -> None:
    evil = socket(session, origin=b"http://rebound.example", host=b"rebound.example")
    assert not (await evil.connect(timeout=WAIT_S))[0]


async def test_without_a_session_there_is_no_socket(cluster: Cluster) -> None:
    assert await socket(None).connect(timeout=WAIT_S) == (False, 4401)


async def test_signed_out_session_has_no_socket(session: SessionStore) -> None:
    await database_sync_to_async(session.flush)()
    accepted, _ = await socket(session).connect(timeout=WAIT_S)
    assert not accepted


async def test_closed_account_has_no_socket(session: SessionStore) -> None:
    await User.objects.aupdate(is_active=False)
    assert not (await socket(session).connect(timeout=WAIT_S))[0]


@pytest.mark.parametrize(
    "text",
    [
        " ",
        "x",
        "[]",
        "null",
        "[" * 5_000,
        '{"type": "drop"}',
        '{"type": ["subscribe"]}',
        '{"type": {}}',
        '{"type": "subscribe", "view": "groups", "cluster": "\\u0000"}',
        '{"type": "subscribe", "view": "groups", "cluster": "a", "parameters": {"q": "\\ud800"}}',
        '{"type": "subscribe"}',
        '{"type": "subscribe", "view": "nope", "cluster": "local"}',
        '{"type": "subscribe", "view": ["groups"], "cluster": "local"}',
        '{"type": "subscribe", "view": "groups", "cluster": 5}',
        '{"type": "subscribe", "view": "groups", "cluster": "local", "parameters": {"q": 1}}',
        '{"type": "subscribe", "view": "groups", "cluster": "local", "parameters": []}',
    ],
)
async def test_nonsense_ends_the_socket_with_a_reason(session: SessionStore, text: str) -> None:
    live = socket(session)
    await live.connect(timeout=WAIT_S)
    await live.send_to(text_data=text)
    assert (await frame_of(live))["type"] == "error"
    assert (await live.receive_output(timeout=WAIT_S))["code"] == 4400


async def test_socket_that_fails_is_closed_with_a_code_that_the_server_can_send(
    session: SessionStore,
    store_groups: Callable[..., ClusterSnapshot],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await database_sync_to_async(store_groups)(group("app"))

    def broken(*_: Any) -> LiveContent:
        raise ZeroDivisionError

    monkeypatch.setitem(LIVE_VIEWS, "groups", LiveView(broken))  # type: ignore[arg-type]
    live = socket(session)
    await live.connect(timeout=WAIT_S)
    await live.send_json_to(SUBSCRIBE)
    code = (await live.receive_output(timeout=WAIT_S))["code"]
    assert code == 1000 or 3000 <= code <= 4999  # autobahn's rule: other codes are not sent


def test_message_of_many_frames_is_bounded_as_well() -> None:
    with pytest.raises(BadMessage, match="at most 16384 characters"):
        read_message(json.dumps({"type": "pause", "more": "x" * 16_384}))


def test_parameters_are_bounded() -> None:
    views = {"groups": LiveView(lambda *_: LiveContent({}))}
    for parameters in ({str(n): "" for n in range(17)}, {"q": "x" * 301}, {"x" * 301: ""}):
        with pytest.raises(BadMessage):
            read_subscription({**SUBSCRIBE, "parameters": parameters}, views)
    with pytest.raises(BadMessage):
        read_message(None)


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        ("http://a", "a", True),
        ("http://a:80", "a", True),
        ("https://a", "a:443", True),
        ("http://A:8000", "a:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://a:8000", "a:8001", False),
        ("https://a", "a:80", False),
        ("ftp://a", "a", False),
        ("null", "a", False),
        ("http://a:x", "a", False),
        ("https://trusted.example", "a", True),
    ],
)
def test_same_origin(origin: str, host: str, expected: bool) -> None:
    assert is_same_origin(origin, host, ["https://trusted.example"]) is expected


def test_view_is_rendered_once_per_sample_and_parameters(
    store_groups: Callable[..., ClusterSnapshot],
) -> None:
    calls = []

    def render(*_: Any) -> LiveContent:
        calls.append(1)
        return LiveContent({"x": "y"})

    store_groups(group("app"))
    view = LiveView(render)
    for _ in range(5):
        view.frame("local", {"q": ""})
    assert len(calls) == 1
    view.frame("local", {"q": "a"})
    store_groups(group("app"), sequence=8)
    view.frame("local", {"q": ""})
    assert len(calls) == 3


async def test_sockets_that_want_the_same_at_once_share_one_rendering(
    store_groups: Callable[..., ClusterSnapshot],
) -> None:
    calls = []

    def render(*_: Any) -> LiveContent:
        calls.append(1)
        return LiveContent({"x": "y"})

    await database_sync_to_async(store_groups)(group("app"))
    view = LiveView(render)
    frames = await asyncio.gather(*(view.newest("local", 7, {"q": ""}) for _ in range(50)))
    assert len(calls) == 1
    assert frames[0] is not None
    assert all(frame is frames[0] for frame in frames), "and its text is made once"


async def test_socket_that_heard_of_a_newer_sample_does_not_get_the_older_one_on_its_way(
    store_groups: Callable[..., ClusterSnapshot],
) -> None:
    await database_sync_to_async(store_groups)(group("app"))
    view = LiveView(lambda _cluster, snapshot, _: LiveContent({"x": str(snapshot.sequence)}))
    older = asyncio.ensure_future(view.newest("local", 7, {}))
    await asyncio.sleep(0)
    store = database_sync_to_async(store_groups)
    await store(group("app"), sequence=8)
    newer = await view.newest("local", 8, {})
    assert newer is not None
    assert newer.content.html == {"x": "8"}
    assert (await older) is not None


async def test_rendering_that_fails_fails_for_all_who_wait_and_is_tried_again(
    store_groups: Callable[..., ClusterSnapshot],
) -> None:
    calls = []

    def render(*_: Any) -> LiveContent:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        return LiveContent({})

    await database_sync_to_async(store_groups)(group("app"))
    view = LiveView(render)
    ended = await asyncio.gather(
        *(view.newest("local", 7, {}) for _ in range(3)), return_exceptions=True
    )
    assert [type(one) for one in ended] == [ZeroDivisionError] * 3
    assert await view.newest("local", 7, {}) is not None


def test_sessions_of_sockets_that_opened_together_are_not_checked_together() -> None:
    times = {round(first_check_s(f"specific.{number}!x"), 2) for number in range(200)}
    assert len(times) > 150
    assert all(SESSION_CHECK_S / 2 <= at_s <= SESSION_CHECK_S for at_s in times)


def test_only_frames_of_the_newest_sample_are_kept(
    store_groups: Callable[..., ClusterSnapshot],
) -> None:
    view = LiveView(lambda *_: LiveContent({}))
    for sequence in range(1, 6):
        store_groups(group("app"), sequence=sequence)
        for number in range(3):
            view.frame("local", {"page": str(number)})
    assert {key[1] for key in view._rendered} == {5}
    assert len(view._rendered) == 3
