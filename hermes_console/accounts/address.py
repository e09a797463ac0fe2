"""The address that a request came from. Pure but for reading the setting of trusted proxies."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final

from django.conf import settings

Network = IPv4Network | IPv6Network
ORIGIN_BITS: Final = 64


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


def origin_of(address: str) -> str:
    """What to count by: an IPv4 address, or the /64 of an IPv6 one: who has one address in it has
    all of them. "" stays "".
    """
    if not _is_address(address):
        return address
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((found, ORIGIN_BITS), strict=False))


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
