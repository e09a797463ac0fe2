"""The settings of one HTTP gateway (`hermes gateway`): where it listens, what it accepts, for how
long it remembers ids.

Not here: how its client talks to the cluster (`ClientSettings`), except for the addresses.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

from broker.config.setting import Unit, setting
from broker.model import INT32_MAX

_HOST: Final = re.compile(r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f.]*(?::[0-9A-Fa-f.]*){2,}\]?")


@dataclasses.dataclass(frozen=True, slots=True)
class GatewaySettings:
    """One snapshot for one process."""

    host: str = setting(
        "host",
        "127.0.0.1",
        "The address to listen on. There is no sign-in yet: any other address opens every topic "
        "to whoever reaches it.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        "allowed.hosts",
        (),
        "Further names (without a port) by which clients may call the gateway, besides localhost, "
        "127.0.0.1, [::1] and `host`. Requests with another Host are answered with 403, so that "
        "no web page reaches it through a browser (DNS rebinding).",
    )
    port: int = setting(
        "port", 8080, "The port to listen on; 0 takes a free one.", minimum=0, maximum=65535
    )
    bootstrap_servers: tuple[str, ...] = setting(
        "bootstrap.servers",
        ("127.0.0.1:9092",),
        "Addresses (host:port) to ask for the cluster's nodes.",
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        10_000,
        "How long a request may wait for the cluster before it is answered with 503 or 504.",
        unit=Unit.MS,
        minimum=100,
        maximum=300_000,
    )
    request_bytes_max: int = setting(
        "request.bytes.max",
        8_388_608,
        "The largest body of a request; larger ones are answered with 413, unread.",
        unit=Unit.BYTES,
        minimum=1_024,
        maximum=268_435_456,
    )
    request_read_ms: int = setting(
        "request.read.ms",
        15_000,
        "How long a client may take to send a request's head, and then its body. For the first "
        "one it counts from the connection on.",
        unit=Unit.MS,
        minimum=100,
        maximum=600_000,
    )
    batch_messages_max: int = setting(
        "batch.messages.max",
        10_000,
        "The most messages of one batch.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=100_000,
    )
    connections_max: int = setting(
        "connections.max",
        2_000,
        "Open client connections; further ones are answered with 503 and closed.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=100_000,
    )
    inflight_bytes_max: int = setting(
        "inflight.bytes.max",
        67_108_864,
        "Bytes of requests and of messages that are not stored yet; beyond it requests are "
        "answered with 429.",
        unit=Unit.BYTES,
        minimum=1_048_576,
        maximum=8_589_934_592,
    )
    fetch_wait_ms_max: int = setting(
        "fetch.wait.ms.max",
        30_000,
        "The longest that a fetch may wait for a message.",
        unit=Unit.MS,
        minimum=0,
        maximum=300_000,
    )
    fetch_bytes_max: int = setting(
        "fetch.bytes.max",
        4_194_304,
        "The most bytes of messages that a fetch asks the cluster for.",
        unit=Unit.BYTES,
        minimum=1_024,
        maximum=67_108_864,
    )
    fetches_max: int = setting(
        "fetches.max",
        128,
        "Fetches under way, each with a connection to a broker; further ones are answered with "
        "429.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=200,
    )
    dedup_window_ms: int = setting(
        "dedup.window.ms",
        300_000,
        "A messageId that is repeated within this time gets the first answer.",
        unit=Unit.MS,
        minimum=1_000,
        maximum=86_400_000,
    )
    dedup_ids_max: int = setting(
        "dedup.ids.max",
        2_000_000,
        "The most messageIds remembered, about 200 bytes each; beyond it messages that carry one "
        "are answered with 429 until the oldest are past the window.",
        unit=Unit.COUNT,
        minimum=1_000,
        maximum=100_000_000,
    )
    dedup_topic: str = setting(
        "dedup.topic",
        "__hermes_gateway_ids",
        "The topic that keeps the ids. One gateway owns it at a time: a second one that is "
        "started with the same topic takes over, and the first one stops.",
    )
    dedup_topic_replication_factor: int = setting(
        "dedup.topic.replication.factor",
        -1,
        "Replicas of that topic when the gateway creates it; -1 leaves the number to the cluster.",
        minimum=-1,
        maximum=INT32_MAX,
    )
    access_log: str = setting(
        "access.log",
        "all",
        "Which requests leave a line in the log.",
        choices=("all", "errors", "none"),
    )
    log_level: str = setting(
        "log.level",
        "INFO",
        "The least severe log lines written.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    )
    log_format: str = setting(
        "log.format",
        "console",
        "How log lines look: for eyes, or one JSON object a line.",
        choices=("console", "json"),
    )

    def rules(self) -> Iterator[str]:
        """What is wrong between settings."""
        if self.inflight_bytes_max < self.request_bytes_max:
            yield (
                f"inflight.bytes.max ({self.inflight_bytes_max}) must be at least "
                f"request.bytes.max ({self.request_bytes_max})"
            )
        for name in self.allowed_hosts:
            if _HOST.fullmatch(name) is None:
                yield (
                    f"allowed.hosts: {name!r} must be a host name or an address, without scheme, "
                    "port and path"
                )
        if not self.bootstrap_servers:
            yield "bootstrap.servers: must name at least one host:port"
