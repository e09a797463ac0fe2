"""Producing one message, as an act: the right, the topic's limits, the audit. It is stored when
this returns, and only then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker.client.partitioner import murmur2_partition
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import audited
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.operations.messages import no_partition, topic_facts

CONTENT_BYTES_MAX: Final = 700 * 1024
"""Key, value and headers together: what fits a form or a request of the console (1 MiB as sent)."""
HEADERS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class NewMessage:
    """What to store. `partition` None: where the key belongs (murmur2), without a key anywhere.
    `timestamp_ms` None: now.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the content."""
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class Produced:
    """Where the message is stored now. `offset` is -1 when the broker had it already (a repeated
    send) and did not say where.
    """

    partition: int
    offset: int
    timestamp_ms: int | None


def produce_one(actor: Actor, cluster: Cluster, topic: str, message: NewMessage) -> Produced:
    """Store `message`, acknowledged by all in-sync replicas.

    Raises NotAllowed, Refused (nothing was stored), ClientError (after TimedOut or ConnectionLost
    it may be stored nevertheless).
    """
    with audited(actor, Right.PRODUCE, "message.produce", cluster=cluster, target=topic) as act:
        act.before = _asked(message)
        _check_content(message)
        client = client_for(cluster)
        facts = topic_facts(client, topic)
        partition = message.partition
        if partition is not None and not 0 <= partition < facts.partition_count:
            raise no_partition(topic, partition, facts.partition_count)
        if partition is None and message.key is not None:
            partition = murmur2_partition(message.key, facts.partition_count)
        limit = facts.max_message_bytes
        if limit is not None and message.size > limit:
            raise Refused(
                413,
                "message-too-large",
                f"The message has {message.size:,} bytes, the topic takes {limit:,} "
                "(max.message.bytes). Send less, or raise the setting.",
            )
        stored = client.produce(
            topic,
            message.value,
            key=message.key,
            partition=partition,
            headers=message.headers,
            timestamp_ms=message.timestamp_ms,
        )
        act.after = _asked(message) | {
            "partition": stored.partition,
            "offset": str(stored.offset),
        }
    return Produced(stored.partition, stored.offset, message.timestamp_ms)


def _check_content(message: NewMessage) -> None:
    if message.size > CONTENT_BYTES_MAX:
        raise Refused(
            413,
            "message-too-large",
            f"Key, value and headers have {message.size:,} bytes; through the console at most "
            f"{CONTENT_BYTES_MAX:,} can be sent. Use `hermes produce` or a client for more.",
        )
    if len(message.headers) > HEADERS_MAX:
        raise Refused(
            422, "too-many-headers", f"{len(message.headers)} headers, at most {HEADERS_MAX}."
        )


def _asked(message: NewMessage) -> dict[str, object]:
    """What the audit keeps of the content: its shape, not the content."""
    return {
        "key_bytes": None if message.key is None else len(message.key),
        "value_bytes": None if message.value is None else len(message.value),
        "headers": [name for name, _ in message.headers][:HEADERS_MAX],
        "partition": message.partition,
        "timestamp_ms": None if message.timestamp_ms is None else str(message.timestamp_ms),
    }
