"""The settings of a broker process. Names and defaults are Kafka's where Kafka has the setting;
ours begin with `hermes.`. The cluster-wide defaults of topic settings and the coordinator's
settings are sections of this table.

Settings that name files, sockets or counts of preallocated things need a restart; limits are live.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.config.group import GroupSettings
from broker.config.setting import Scope, Unit, section, setting
from broker.config.topic import TopicSettings
from broker.model import INT32_MAX, INT64_MAX

LISTENER_NAMES: Final = ("PLAINTEXT",)
AUTOMATIC: Final = -1
"""The broker chooses."""


class ListenerAddress(NamedTuple):
    """One `NAME://host:port`; port 0 asks for any free one."""

    name: str
    host: str
    port: int


def parse_listener(text: str) -> ListenerAddress:
    """`PLAINTEXT://127.0.0.1:9092`. IPv6 hosts stand in brackets.

    Raises ValueError with a sentence.
    """
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"must look like PLAINTEXT://127.0.0.1:9092, found {text!r}")
    if name not in LISTENER_NAMES:
        raise ValueError(f"only PLAINTEXT listeners exist yet, found {name!r}")
    return ListenerAddress(name, host, int(port))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_listeners(text: str) -> str | None:
    try:
        address = parse_listener(text)
    except ValueError as error:
        return str(error)
    if not is_loopback(address.host):
        return (
            "must be an address of this machine alone until there is authentication, "
            f"found {address.host}"
        )
    return None


def _check_metrics_host(host: str) -> str | None:
    if is_loopback(host):
        return None
    return f"must be an address of this machine alone until there is authentication, found {host}"


def _check_advertised(text: str) -> str | None:
    try:
        if text:
            parse_listener(text)
    except ValueError as error:
        return str(error)
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerSettings:
    """One snapshot of a broker's effective settings."""

    node_id: int = setting(
        "node.id",
        0,
        "The number of this node, unique in its cluster and never changed.",
        minimum=0,
        maximum=INT32_MAX,
    )
    log_dir: str = setting(
        "log.dir", "data", "The directory that holds everything the broker stores."
    )
    listeners: str = setting(
        "listeners",
        "PLAINTEXT://127.0.0.1:9092",
        "Where clients connect, as NAME://host:port; port 0 takes any free one.",
        check=_check_listeners,
    )
    advertised_listeners: str = setting(
        "advertised.listeners",
        "",
        "The address that clients are told, as NAME://host:port; empty means the one that was "
        "bound.",
        check=_check_advertised,
    )
    hermes_metrics_host: str = setting(
        "hermes.metrics.host",
        "127.0.0.1",
        "The address of /metrics, /healthz and /readyz.",
        check=_check_metrics_host,
    )
    hermes_metrics_port: int = setting(
        "hermes.metrics.port",
        9404,
        "The port of /metrics, /healthz and /readyz; 0 takes any, -1 serves none.",
        minimum=-1,
        maximum=65_535,
    )

    # Requests and connections.
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        104_857_600,
        "A larger request closes its connection before it is read.",
        unit=Unit.BYTES,
        minimum=1024,
        maximum=INT32_MAX,
        live=True,
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        512 << 20,
        "Memory for requests of all connections, half-received ones included; beyond it no "
        "connection is read. Never more than a quarter of the memory that the process may use.",
        unit=Unit.BYTES,
        minimum=1 << 20,
        maximum=INT64_MAX,
        live=True,
    )
    max_connections: int = setting(
        "max.connections",
        10_000,
        "Connections in all; one more is closed at once.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=INT32_MAX,
        live=True,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT32_MAX,
        "Connections from one address; one more is closed at once.",
        unit=Unit.COUNT,
        minimum=0,
        maximum=INT32_MAX,
        live=True,
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        "A connection without a request for this long is closed.",
        unit=Unit.MS,
        minimum=1_000,
        maximum=INT64_MAX,
        live=True,
    )
    hermes_connection_inflight_requests_max: int = setting(
        "hermes.connection.inflight.requests.max",
        128,
        "Unanswered requests of one connection; beyond it the connection is not read.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=INT32_MAX,
        live=True,
    )
    hermes_connection_inflight_bytes_max: int = setting(
        "hermes.connection.inflight.bytes.max",
        64 << 20,
        "Bytes of one connection's unanswered requests and unsent answers; beyond it the "
        "connection is not read.",
        unit=Unit.BYTES,
        minimum=1 << 16,
        maximum=INT64_MAX,
        live=True,
    )
    hermes_request_read_timeout_ms: int = setting(
        "hermes.request.read.timeout.ms",
        30_000,
        "A request that is not complete this long after its first byte closes its connection; a "
        "big one has a second more for each 250 KiB that arrived.",
        unit=Unit.MS,
        minimum=100,
        maximum=INT32_MAX,
        live=True,
    )
    hermes_descriptors_reserved: int = setting(
        "hermes.descriptors.reserved",
        256,
        "File descriptors that connections may not use, kept for storage.",
        unit=Unit.COUNT,
        minimum=16,
        maximum=INT32_MAX,
    )
    hermes_log_level: str = setting(
        "hermes.log.level",
        "INFO",
        "The least severe lines that are logged.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    )
    hermes_log_format: str = setting(
        "hermes.log.format",
        "console",
        "How lines are logged to standard error: console for eyes, json for collectors.",
        choices=("console", "json"),
    )
    hermes_shutdown_timeout_ms: int = setting(
        "hermes.shutdown.timeout.ms",
        5_000,
        "How long a stopping broker waits for clients to take the answers that are ready.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        live=True,
    )

    # Topics.
    num_partitions: int = setting(
        "num.partitions",
        1,
        "Partitions of a topic whose creator names no number.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=10_000,
        scope=Scope.CLUSTER,
        live=True,
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        1,
        "Replicas of a partition whose creator names no number. 1 is the only value yet.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=1,
        scope=Scope.CLUSTER,
        live=True,
    )
    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable",
        True,
        "Whether asking for the metadata of an unknown topic creates it, when the client allows "
        "it.",
        scope=Scope.CLUSTER,
        live=True,
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable",
        True,
        "Whether clients may delete topics.",
        scope=Scope.CLUSTER,
        live=True,
    )
    hermes_partitions_max: int = setting(
        "hermes.partitions.max",
        10_000,
        "Partitions on one node, internal ones included; more are refused.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=1_000_000,
        live=True,
    )

    # Fetching.
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        57_671_680,
        "The most bytes of records in one Fetch answer.",
        unit=Unit.BYTES,
        minimum=1024,
        maximum=INT32_MAX,
        live=True,
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        "Incremental fetch sessions kept at a time.",
        unit=Unit.COUNT,
        minimum=0,
        maximum=INT32_MAX,
        live=True,
    )
    min_incremental_fetch_session_eviction_ms: int = setting(
        "min.incremental.fetch.session.eviction.ms",
        120_000,
        "A fetch session that was used within this time does not give way to a new one.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        live=True,
    )

    # Producers and the log.
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        86_400_000,
        "A partition forgets an idempotent producer that was silent for this long.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=Scope.CLUSTER,
        live=True,
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        300_000,
        "How often segments past their retention are looked for.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT64_MAX,
        live=True,
    )
    hermes_log_dir_min_free_bytes: int = setting(
        "hermes.log.dir.min.free.bytes",
        AUTOMATIC,
        "With less free space on its disk the broker takes no records from clients "
        "(KAFKA_STORAGE_ERROR); all else goes on. -1: a twentieth of the disk, at most 1 GiB. "
        "0: only a full disk refuses.",
        unit=Unit.BYTES,
        minimum=AUTOMATIC,
        maximum=INT64_MAX,
        live=True,
    )
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15_000,
        "How long the cleaner rests when there is nothing to clean.",
        unit=Unit.MS,
        minimum=100,
        maximum=INT64_MAX,
        live=True,
    )

    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        128 << 20,
        "Memory of the worker process for the keys of one cleaning, 32 bytes a key; where there "
        "are more keys, the cleaner goes over the partition more than once.",
        unit=Unit.BYTES,
        minimum=1024,
        maximum=INT64_MAX,
        live=True,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "How fast the cleaner reads and writes, both together.",
        unit=Unit.BYTES,
        minimum=1024.0,
        maximum=1.7976931348623157e308,
        live=True,
    )

    hermes_scrub_bytes_per_second: int = setting(
        "hermes.scrub.bytes.per.second",
        10 << 20,
        "How fast stored records are checked for damage in the background; 0 checks nothing.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT64_MAX,
        live=True,
    )
    hermes_scrub_interval_ms: int = setting(
        "hermes.scrub.interval.ms",
        86_400_000,
        "A round of checks begins this long after the one before it began, or when that one ends.",
        unit=Unit.MS,
        minimum=1_000,
        maximum=INT64_MAX,
        live=True,
    )

    group: GroupSettings = section(GroupSettings)
    topic_defaults: TopicSettings = section(TopicSettings)

    @property
    def listener(self) -> ListenerAddress:
        """Where the broker listens."""
        return parse_listener(self.listeners)

    @property
    def advertised_listener(self) -> ListenerAddress | None:
        """What clients are told; None means the bound address."""
        return parse_listener(self.advertised_listeners) if self.advertised_listeners else None

    def rules(self) -> Iterator[str]:
        """What is wrong between settings of a broker."""
        if self.topic_defaults.max_message_bytes >= self.socket_request_max_bytes:
            yield (
                f"message.max.bytes ({self.topic_defaults.max_message_bytes}) must be below "
                f"socket.request.max.bytes ({self.socket_request_max_bytes})"
            )
