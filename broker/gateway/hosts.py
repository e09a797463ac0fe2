"""Which requests may be answered at all: those that were meant for this gateway, by its name.

There is no sign-in, so a web page must not reach the gateway through the browser of somebody who
can: a page whose own name is made to lead here (DNS rebinding) sends that name as Host, and a page
of another origin sends its Origin. Pure.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDictProxy
from yarl import URL

from broker.config.gateway import GatewaySettings
from broker.gateway.problem import Problem

LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Any address will do for these, as probes know no name; browsers' names do not."""


class Hosts:
    """The names of one gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        given = (settings.host, *settings.allowed_hosts)
        self._names = frozenset((*LOCAL, *map(_name_of, given))) - {""}

    def check(self, headers: CIMultiDictProxy[str], path: str, *, whole: URL | None) -> None:
        """`whole` is the address when the request line has all of it. Raises Problem:
        HOST_NOT_ALLOWED, ORIGIN_NOT_ALLOWED.
        """
        host = headers.get(hdrs.HOST, "")
        if _without_port(host) not in self._names and not _is_probe(host, path):
            raise _no_name(host)
        if whole is not None and _name_of(whole.raw_host or "") not in self._names:
            raise _no_name(whole.raw_host or "")  # it counts before Host (RFC 9112, 3.2.2)
        origin = headers.get(hdrs.ORIGIN)
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Problem(
                "ORIGIN_NOT_ALLOWED",
                f"Origin {origin[:80]!r} is another one than that of Host {host[:80]!r}: pages of "
                "other origins are not answered (allowed.hosts does not change that); call the "
                "gateway from a server",
            )


def _no_name(host: str) -> Problem:
    return Problem(
        "HOST_NOT_ALLOWED",
        f"Host {host[:80]!r} is no name of this gateway: call it by one, or add this one "
        "(without its port) to the setting allowed.hosts",
    )


def _without_port(host: str) -> str:
    host = host.lower()
    if host.endswith("]"):
        return host
    name, colon, _ = host.rpartition(":")
    return name if colon else host


def _name_of(given: str) -> str:
    """As a Host header has it: IPv6 addresses in brackets."""
    name = given.strip().lower()
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _is_probe(host: str, path: str) -> bool:
    """HTTP/1.0 has no Host."""
    if path not in PROBES:
        return False
    name = _without_port(host)
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return not host
    return True
