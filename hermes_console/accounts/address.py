"""The address that a request came from. Pure but for reading the setting of trusted proxies."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

from django.conf import settings

Network = IPv4Network | IPv6Network


def address_of(request: Any) -> str:
    """The client's IP address; that of the last machine that is no proxy of ours."""
    return client_address(
        request.META.get("REMOTE_ADDR", ""),
        request.META.get("HTTP_X_FORWARDED_FOR", ""),
        settings.ENVIRONMENT.trusted_proxies,
    )


def client_address(peer: str, forwarded_for: str, proxies: Sequence[Network]) -> str:
    """`peer`, or when that is a trusted proxy, the last address of X-Forwarded-For that is none.

    What stands further left was written by the client and is worth nothing.
    """
    found = peer
    for hop in reversed([part.strip() for part in forwarded_for.split(",") if part.strip()]):
        if not _is_within(found, proxies):
            break
        if not _is_address(hop):
            break
        found = hop
    return found if _is_address(found) else ""


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_within(text: str, networks: Sequence[Network]) -> bool:
    if not _is_address(text):
        return False
    address = ip_address(text)
    return any(address in network for network in networks)
