"""Where the console may connect for a cluster that somebody added: not to this installation's own
services, not to a cloud's metadata, not to ports that are never Kafka's.

Pure but for one question to the kernel (is this address ours?). The cluster of HERMES_BOOTSTRAP is
the administrator's own word and is not judged.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from hermes_console.environment import Environment, Reach

Address = IPv4Address | IPv6Address
PORT_LOWEST: Final = 1_024
"""Below are the system's ports: mail, name service, web. No Kafka listens there."""
FOREIGN_PORTS: Final = {
    1433: "SQL Server",
    2181: "ZooKeeper",
    2375: "Docker",
    2376: "Docker",
    2379: "etcd",
    2380: "etcd",
    3306: "MySQL",
    5432: "PostgreSQL",
    5672: "AMQP",
    6379: "Redis",
    8500: "Consul",
    9200: "Elasticsearch",
    10250: "Kubernetes",
    11211: "memcached",
    27017: "MongoDB",
}
METADATA: Final = tuple(
    map(ip_network, ("169.254.169.254/32", "fd00:ec2::254/128", "100.100.100.200/32"))
)
NAT64: Final = ip_network("64:ff9b::/96")


class NotPermitted(OSError):
    """An address that the console does not connect to; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`own_ports` are the installation's on this machine, `own_services` its (address, port)
    elsewhere.
    """

    own_ports: Collection[int] = ()
    own_services: Collection[tuple[str, int]] = ()
    deny: tuple[Reach, ...] = ()
    allow: tuple[Reach, ...] = ()
    is_local: Callable[[str], bool] | None = None

    def permit(self, name: str, address: str, port: int) -> None:
        """Raises NotPermitted."""
        where = f"{name}:{port}" if name == address else f"{name}:{port} ({address})"
        found = plain_address(address)
        if any(one.covers(found, port) for one in self.deny):
            raise _refusal(where, "HERMES_CLUSTER_DENY names it")
        named = [one for one in self.allow if one.covers(found, port)]
        if self.allow and not named:
            raise _refusal(where, "HERMES_CLUSTER_ALLOW does not name it")
        if any(one.port is not None for one in named):
            return
        reason = self._reason(found, port)
        if reason is not None:
            raise _refusal(where, reason)

    def _reason(self, address: Address, port: int) -> str | None:
        text = str(address)
        if any(address in network for network in METADATA):
            return "it is a cloud's metadata service"
        if address.is_link_local:
            return "it is a link-local address"
        if address.is_multicast or address.is_unspecified or text == "255.255.255.255":
            return "it is no address of a single machine"
        if port < PORT_LOWEST:
            return f"ports below {PORT_LOWEST} are the system's, never Kafka's"
        if port in self.own_ports and (self.is_local or is_of_this_machine)(text):
            return "it is a service of this installation itself"
        if (text, port) in self.own_services:
            return "it is a service of this installation itself"
        if port in FOREIGN_PORTS:
            return f"port {port} is that of {FOREIGN_PORTS[port]}"
        return None


def policy_for(environment: Environment, own_ports: Collection[int]) -> Policy:
    """The policy of this installation. Resolves the names of its services: may take a while."""
    ports = {*own_ports, *environment.own_ports}
    services: set[tuple[str, int]] = set()
    for url, default in (
        (environment.console_url, 80),
        (environment.metrics_url, 80),
        (environment.redis_url or "", 6379),
    ):
        parts = urlsplit(url)
        if parts.hostname:
            services |= _resolved(parts.hostname, parts.port or default)
    if environment.database is not None:
        host = str(environment.database.get("HOST") or "127.0.0.1")
        services |= _resolved(host, int(str(environment.database.get("PORT") or 5432)))
    ports |= {port for address, port in services if is_of_this_machine(address)}
    return Policy(
        own_ports=frozenset(ports),
        own_services=frozenset(services),
        deny=environment.cluster_deny,
        allow=environment.cluster_allow,
    )


def plain_address(text: str) -> Address:
    """The address itself, out of the IPv6 notations that hide an IPv4 one."""
    found = ip_address(text.partition("%")[0])
    if isinstance(found, IPv6Address):
        hidden = found.ipv4_mapped or found.sixtofour
        if hidden is not None:
            return hidden
        if found in NAT64:
            return IPv4Address(int(found) & 0xFFFFFFFF)
    return found


def is_of_this_machine(address: str) -> bool:
    """Whether the kernel lets us listen there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL}
    return True


def _refusal(where: str, reason: str) -> NotPermitted:
    return NotPermitted(f"the console does not connect to {where}: {reason}")


def _resolved(host: str, port: int) -> set[tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {(str(plain_address(str(row[4][0]))), port) for row in found}
