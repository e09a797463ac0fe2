"""The settings of our own Kafka client (console, CLI, demo, simulator).

Names are those of Kafka's clients.
"""

from __future__ import annotations

import dataclasses

from broker.config.setting import Scope, Unit, setting
from broker.model import INT32_MAX

_CLIENT = Scope.CLIENT


@dataclasses.dataclass(frozen=True, slots=True)
class ClientSettings:
    """One snapshot for one client."""

    bootstrap_servers: tuple[str, ...] = setting(
        "bootstrap.servers",
        ("127.0.0.1:9092",),
        "Addresses (host:port) to ask for the cluster's nodes.",
        scope=_CLIENT,
    )
    client_id: str = setting(
        "client.id", "hermes", "The name under which the client appears.", scope=_CLIENT
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        30_000,
        "A request without an answer for this long has failed.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    socket_connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms",
        10_000,
        "How long a connection attempt may take.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    retry_backoff_ms: int = setting(
        "retry.backoff.ms",
        100,
        "The first pause before trying again; it doubles up to retry.backoff.max.ms.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    retry_backoff_max_ms: int = setting(
        "retry.backoff.max.ms",
        1_000,
        "The longest pause before trying again.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    metadata_max_age_ms: int = setting(
        "metadata.max.age.ms",
        300_000,
        "The cluster's metadata is asked for again after this long.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    receive_message_max_bytes: int = setting(
        "receive.message.max.bytes",
        100_000_000,
        "The largest answer that is read.",
        unit=Unit.BYTES,
        minimum=1_000,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    enable_idempotence: bool = setting(
        "enable.idempotence",
        True,
        "Whether a producer numbers its batches, so that a retry is stored once.",
        scope=_CLIENT,
    )
    delivery_timeout_ms: int = setting(
        "delivery.timeout.ms",
        120_000,
        "A record that is not acknowledged for this long has failed.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    linger_ms: int = setting(
        "linger.ms",
        5,
        "How long a producer waits to fill a batch.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    batch_size: int = setting(
        "batch.size",
        16_384,
        "The size at which a producer closes a batch.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    buffer_memory: int = setting(
        "buffer.memory",
        33_554_432,
        "Bytes of records a producer holds before `send` has to wait.",
        unit=Unit.BYTES,
        minimum=1,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    fetch_min_bytes: int = setting(
        "fetch.min.bytes",
        1,
        "A fetch is answered at once when it has this many bytes.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    fetch_max_wait_ms: int = setting(
        "fetch.max.wait.ms",
        500,
        "A fetch with less is answered after this long.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        50 << 20,
        "The most bytes asked for in one fetch.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes",
        1 << 20,
        "The most bytes asked for of one partition.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        45_000,
        "A group member that is silent for this long is removed.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms",
        3_000,
        "How often a group member says that it lives.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        300_000,
        "A member that does not poll for this long leaves its group.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    auto_commit_interval_ms: int = setting(
        "auto.commit.interval.ms",
        5_000,
        "How often polled offsets are committed.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        scope=_CLIENT,
    )
    auto_offset_reset: str = setting(
        "auto.offset.reset",
        "latest",
        "Where a group without a committed offset begins.",
        choices=("earliest", "latest", "none"),
        scope=_CLIENT,
    )
