"""One member of a classic group: who it is, what it supports, and which of its requests are parked.

A member holds at most one parked join and one parked sync. Its session runs out at
`session_deadline_ms`, except while a request of it is parked; a member that was never answered
(`is_new`) runs out even then (KAFKA-7610).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordinators.group.effects import ReplyTo
from broker.coordinators.group.records import StoredMember

Protocols = tuple[tuple[str, bytes], ...]
"""A member's (protocol name, metadata) pairs, the preferred first."""


class Member:
    """Mutable, owned by its ClassicGroup."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.session_deadline_ms = 0.0
        self.parked_join: ReplyTo | None = None
        self.parked_sync: ReplyTo | None = None
        self.is_new = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def expires_at_ms(self) -> float | None:
        """When silence removes the member; None while it waits for us."""
        is_waiting = self.parked_join is not None or self.parked_sync is not None
        return None if is_waiting and not self.is_new else self.session_deadline_ms

    def metadata_for(self, protocol: str | None) -> bytes:
        """What the member said for `protocol`; b"" when it does not know it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def first_of(self, candidates: Sequence[str] | frozenset[str]) -> str | None:
        """The member's most preferred protocol among `candidates`."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        return None

    def metadata_bytes(self) -> int:
        """See `protocols_bytes`."""
        return protocols_bytes(self.protocols)

    def identity_bytes(self) -> int:
        """What the member's own strings take in a record, in bytes."""
        names = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        return sum(len(name.encode()) for name in names)

    def to_stored(self, protocol: str | None) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata_for(protocol),
            self.assignment,
        )


def protocols_bytes(protocols: Protocols) -> int:
    """What a group keeps in memory of a member's protocols, in characters of names and bytes of
    metadata.
    """
    return sum(len(name) + len(metadata) for name, metadata in protocols)


def member_from_stored(stored: StoredMember, protocol: str | None) -> Member:
    """The member as a restart finds it: it supports what its generation used, and has synced."""
    member = Member(
        member_id=stored.member_id,
        instance_id=stored.instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        protocols=((protocol or "", stored.subscription),),
    )
    member.assignment = stored.assignment
    return member
