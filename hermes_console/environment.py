"""What the console takes from its environment, as one frozen table. Pure: a mapping in, an
`Environment` out.

With neither HERMES_DATABASE_URL nor HERMES_REDIS_URL the console is embedded: SQLite files, an
in-process channel layer and Celery's filesystem broker, all below `<HERMES_DATA_DIR>/console`. A
bad value is a `BadEnvironment` that names the variable, what was found and what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

DATA_DIRECTORY_DEFAULT = ".hermes"
CONSOLE_URL_DEFAULT = "http://127.0.0.1:8000"
BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
METRICS_URL_DEFAULT = "http://127.0.0.1:9404/metrics"
CLUSTER_NAME_DEFAULT = "local"
HOSTS_DEFAULT = "localhost,127.0.0.1,[::1]"
REACH_PATTERN = re.compile(
    r"(?:\[(?P<bracketed>[0-9a-fA-F:.]+(?:/\d+)?)\]|(?P<plain>[0-9.]+(?:/\d+)?|[0-9a-fA-F:]+/\d+))"
    r"(?::(?P<port>\d{1,5}))?"
)
CLUSTER_NAME_PATTERN = re.compile(r"[a-z0-9-]{1,63}")
AUDIT_DAYS_DEFAULT: Final = 400
"""A year, and time to look at it."""
DAYS_MAX: Final = 36_500
CONNECTIONS_DEFAULT: Final = 16
CONNECTIONS_MIN: Final = 4
"""A look at a cluster, a slice of a search and two requests at the same time."""
CONNECTIONS_MAX: Final = 1_000
CONNECTION_WAIT_S: Final = 5.0
CONNECTION_IDLE_S: Final = 120.0


class BadEnvironment(Exception):
    """A variable holds what the console cannot use; the message says which, what was found and what
    to set.
    """


@dataclass(frozen=True, slots=True)
class Reach:
    """Addresses of clusters: a network, and one of its ports or all (None)."""

    network: IPv4Network | IPv6Network
    port: int | None

    def covers(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        return address in self.network and self.port in {None, port}


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything the settings are derived from. Directories are absolute; addresses are `host:port`
    lists.
    """

    data_directory: Path
    database: Mapping[str, object] | None
    redis_url: str | None
    cluster_name: str
    bootstrap: str
    metrics_url: str
    console_url: str
    allowed_hosts: tuple[str, ...]
    trusted_origins: tuple[str, ...]
    is_secure: bool
    secret_key: str | None
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    cluster_allow: tuple[Reach, ...] = ()
    cluster_deny: tuple[Reach, ...] = ()
    own_ports: tuple[int, ...] = ()
    audit_days: int = AUDIT_DAYS_DEFAULT

    @property
    def is_embedded(self) -> bool:
        return self.redis_url is None

    @property
    def console_directory(self) -> Path:
        return self.data_directory / "console"


def read_environment(variables: Mapping[str, str], working_directory: Path) -> Environment:
    """The environment that `variables` describe. Raises BadEnvironment."""
    data_directory = Path(variables.get("HERMES_DATA_DIR") or DATA_DIRECTORY_DEFAULT)
    cluster_name = variables.get("HERMES_CLUSTER_NAME") or CLUSTER_NAME_DEFAULT
    if not CLUSTER_NAME_PATTERN.fullmatch(cluster_name):
        raise BadEnvironment(
            f"HERMES_CLUSTER_NAME is {cluster_name!r}; expected 1 to 63 of a-z, 0-9 and -"
        )
    database_url = variables.get("HERMES_DATABASE_URL") or None
    connections = parse_connections(
        "HERMES_DATABASE_CONNECTIONS",
        variables.get("HERMES_DATABASE_CONNECTIONS") or str(CONNECTIONS_DEFAULT),
    )
    redis_url = variables.get("HERMES_REDIS_URL") or None
    if redis_url is not None and urlsplit(redis_url).scheme not in {"redis", "rediss", "unix"}:
        raise BadEnvironment("HERMES_REDIS_URL must begin with redis://, rediss:// or unix://")
    return Environment(
        data_directory=(working_directory / data_directory).absolute(),
        database=(None if database_url is None else parse_database_url(database_url, connections)),
        redis_url=redis_url,
        cluster_name=cluster_name,
        bootstrap=parse_bootstrap(variables.get("HERMES_BOOTSTRAP") or BOOTSTRAP_DEFAULT),
        metrics_url=parse_metrics_url(variables.get("HERMES_METRICS_URL", METRICS_URL_DEFAULT)),
        console_url=(variables.get("HERMES_CONSOLE_URL") or CONSOLE_URL_DEFAULT).rstrip("/"),
        allowed_hosts=_split(variables.get("HERMES_ALLOWED_HOSTS") or HOSTS_DEFAULT),
        trusted_origins=_split(variables.get("HERMES_TRUSTED_ORIGINS") or ""),
        is_secure=parse_flag("HERMES_SECURE", variables.get("HERMES_SECURE") or "0"),
        secret_key=variables.get("HERMES_SECRET_KEY") or None,
        trusted_proxies=parse_networks(
            "HERMES_TRUSTED_PROXIES", variables.get("HERMES_TRUSTED_PROXIES") or ""
        ),
        cluster_allow=parse_reaches(
            "HERMES_CLUSTER_ALLOW", variables.get("HERMES_CLUSTER_ALLOW") or ""
        ),
        cluster_deny=parse_reaches(
            "HERMES_CLUSTER_DENY", variables.get("HERMES_CLUSTER_DENY") or ""
        ),
        own_ports=parse_ports("HERMES_OWN_PORTS", variables.get("HERMES_OWN_PORTS") or ""),
        audit_days=parse_days(
            "HERMES_AUDIT_DAYS", variables.get("HERMES_AUDIT_DAYS") or str(AUDIT_DAYS_DEFAULT)
        ),
    )


def parse_database_url(url: str, connections: int) -> Mapping[str, object]:
    """Django's DATABASES entry for `postgresql://user:password@host:port/name`. Every request has
    a thread of its own, and so would have a connection of its own: up to `connections` are kept
    and lent to whoever asks; 0 keeps none. Raises BadEnvironment.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"} or not parts.path.strip("/"):
        raise BadEnvironment(
            f"HERMES_DATABASE_URL begins with {parts.scheme or '(nothing)'!r}; "
            "expected postgresql://user:password@host:port/name (unset: embedded SQLite)"
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        **(_kept(connections) if connections else {}),
    }


def _kept(connections: int) -> Mapping[str, object]:
    """A pool is asked whether a connection lives before it lends one: a database that was
    restarted is noticed by nobody but the log.
    """
    return {
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "pool": {
                "min_size": 0,
                "max_size": connections,
                "timeout": CONNECTION_WAIT_S,
                "max_idle": CONNECTION_IDLE_S,
            }
        },
    }


def parse_bootstrap(text: str) -> str:
    """`host:port[,host:port…]` as given, once every part is checked. Raises BadEnvironment."""
    for address in text.split(","):
        host, separator, port = address.strip().rpartition(":")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise BadEnvironment(
                f"HERMES_BOOTSTRAP has {address!r}; expected host:port, several joined by commas"
            )
    return text


def parse_metrics_url(text: str) -> str:
    """An http(s) URL, `/metrics` when it names no path, or "" for a cluster without one. Raises
    BadEnvironment.
    """
    if text and urlsplit(text).scheme not in {"http", "https"}:
        raise BadEnvironment(
            f"HERMES_METRICS_URL is {text!r}; expected http://host:port/metrics or nothing"
        )
    return f"{text.rstrip('/')}/metrics" if text and not urlsplit(text).path.strip("/") else text


def parse_flag(name: str, text: str) -> bool:
    """Whether `text` means yes. Raises BadEnvironment but for 1, true, yes, 0, false, no."""
    lowered = text.lower()
    if lowered in {"1", "true", "yes"}:
        return True
    if lowered in {"0", "false", "no"}:
        return False
    raise BadEnvironment(f"{name} is {text!r}; expected 1 or 0")


def parse_networks(name: str, text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks or single addresses, joined by commas. Raises BadEnvironment."""
    try:
        return tuple(ip_network(part) for part in _split(text))
    except ValueError as error:
        raise BadEnvironment(
            f"{name} is {text!r} ({error}); expected addresses or networks such as "
            "10.0.0.0/8,192.168.1.5, joined by commas"
        ) from error


def parse_reaches(name: str, text: str) -> tuple[Reach, ...]:
    """Networks or addresses, each with or without `:port` (IPv6 in brackets then). Raises
    BadEnvironment.
    """
    found = []
    for part in _split(text):
        matched = REACH_PATTERN.fullmatch(part)
        try:
            if matched is None:
                raise ValueError(part)
            port = matched["port"]
            network = ip_network(matched["bracketed"] or matched["plain"])
            if port is not None and not 0 < int(port) < 65536:
                raise ValueError(part)
        except ValueError as error:
            raise BadEnvironment(
                f"{name} has {part!r}; expected addresses or networks such as "
                "10.0.0.0/8,192.168.1.5:9092,[fd00::/8],[::1]:9092, joined by commas"
            ) from error
        found.append(Reach(network, None if port is None else int(port)))
    return tuple(found)


def parse_ports(name: str, text: str) -> tuple[int, ...]:
    """Port numbers. Raises BadEnvironment."""
    for part in _split(text):
        if not part.isdecimal() or not 0 < int(part) < 65536:
            raise BadEnvironment(f"{name} has {part!r}; expected port numbers joined by commas")
    return tuple(int(part) for part in _split(text))


def parse_connections(name: str, text: str) -> int:
    """How many connections to keep; 0 is none. Raises BadEnvironment."""
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    if count and not CONNECTIONS_MIN <= count <= CONNECTIONS_MAX:
        raise BadEnvironment(
            f"{name} is {text!r}; expected {CONNECTIONS_MIN} to {CONNECTIONS_MAX:,}, or 0 for a "
            "new connection at every request"
        )
    return count


def parse_days(name: str, text: str) -> int:
    """A number of days; 0 is for ever. Raises BadEnvironment."""
    if not (text.isascii() and text.isdecimal()) or int(text) > DAYS_MAX:
        raise BadEnvironment(
            f"{name} is {text!r}; expected a number of days up to {DAYS_MAX:,}, or 0 for ever"
        )
    return int(text)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
