"""Refuses websockets that another site opened: browsers send cookies with them, but not without an
Origin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

Asgi = Callable[[dict[str, Any], Any, Any], Awaitable[Any]]
PORTS: Final = {"http": 80, "https": 443}


class SameOriginOnly:
    """ASGI middleware: the socket's Origin must be the page's own (or a trusted one), and its host
    an allowed one.
    """

    def __init__(self, application: Asgi) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        origin = _single_header(scope["headers"], b"origin")
        host = _single_header(scope["headers"], b"host")
        is_ours = (
            origin is not None
            and host is not None
            and validate_host(_without_port(host), settings.ALLOWED_HOSTS)
            and is_same_origin(origin, host, settings.CSRF_TRUSTED_ORIGINS)
        )
        application = self._application if is_ours else WebsocketDenier()
        return await application(scope, receive, send)


def is_same_origin(origin: str, host: str, trusted_origins: Collection[str]) -> bool:
    """Whether a page of `origin` may open a socket at `host` (`name[:port]`). `null` and nonsense
    never may.
    """
    if origin in trusted_origins:
        return True
    try:
        parts = urlsplit(origin)
        if parts.scheme not in PORTS or not parts.hostname:
            return False
        wanted = urlsplit(f"{parts.scheme}://{host}")
        default = PORTS[parts.scheme]
        return (parts.hostname, parts.port or default) == (wanted.hostname, wanted.port or default)
    except ValueError:
        return False


def _single_header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The header's value; None when it is absent or given twice."""
    values = [value for key, value in headers if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def _without_port(host: str) -> str:
    return host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
