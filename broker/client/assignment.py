"""The consumer protocol inside a classic group: what members subscribe to, what they are assigned,
the range assignor.

Both messages begin with their version as int16; a newer version is read as the newest one known
here, since versions only ever append. The group's coordinator passes them on unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.client.failure import ClientError
from broker.model import TopicPartition
from broker.ports import Buffer
from broker.wire.primitives import MalformedMessage
from broker.wire.schema import (
    INT32,
    STRING,
    array,
    bytes_,
    decoder,
    encoder,
    int32,
    message,
    string,
    struct,
)

PROTOCOL_TYPE: Final = "consumer"
RANGE: Final = "range"
SUBSCRIPTION_VERSION: Final = 1
ASSIGNMENT_VERSION: Final = 1
_VERSION_MAX: Final = 3
_VERSION_BYTES: Final = 2


@struct
class OwnedPartitions:
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@message(versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    """What a member wants to read, and what it still holds."""

    topics: list[str] = array(STRING)
    user_data: bytes | None = bytes_(None, nullable="0+")
    owned_partitions: list[OwnedPartitions] = array(OwnedPartitions, versions="1+", ignorable=True)
    generation_id: int = int32(-1, versions="2+", ignorable=True)
    rack_id: str | None = string(None, versions="3+", nullable="3+", ignorable=True)


@message(versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    """What a member shall read."""

    assigned_partitions: list[OwnedPartitions] = array(OwnedPartitions)
    user_data: bytes | None = bytes_(None, nullable="0+")


class MemberSubscription(NamedTuple):
    """A member as the assignor sees it; static members sort by instance id, as Java sorts them."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = SUBSCRIPTION_VERSION
) -> bytes:
    """The bytes for JoinGroup."""
    out = bytearray(version.to_bytes(_VERSION_BYTES, "big"))
    encoder(ConsumerProtocolSubscription, version)(out, subscription)
    return bytes(out)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Raises ClientError for anything else."""
    version = _version(data)
    try:
        return decoder(ConsumerProtocolSubscription, version)(memoryview(data), _VERSION_BYTES)[0]
    except MalformedMessage as error:
        msg = f"not a consumer's subscription: {error}"
        raise ClientError(msg) from error


def encode_assignment(
    partitions: Iterable[TopicPartition], version: int = ASSIGNMENT_VERSION
) -> bytes:
    """The bytes for SyncGroup."""
    topics: dict[str, OwnedPartitions] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, OwnedPartitions(topic=topic)).partitions.append(partition)
    out = bytearray(version.to_bytes(_VERSION_BYTES, "big"))
    assignment = ConsumerProtocolAssignment(assigned_partitions=list(topics.values()))
    encoder(ConsumerProtocolAssignment, version)(out, assignment)
    return bytes(out)


def decode_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """What the member is to read; nothing for empty bytes. Raises ClientError for anything else."""
    if not len(data):
        return ()
    version = _version(data)
    try:
        assignment, _ = decoder(ConsumerProtocolAssignment, version)(
            memoryview(data), _VERSION_BYTES
        )
    except MalformedMessage as error:
        msg = f"not a consumer's assignment: {error}"
        raise ClientError(msg) from error
    return tuple(
        TopicPartition(row.topic, partition)
        for row in assignment.assigned_partitions
        for partition in row.partitions
    )


def assign_range(
    members: Iterable[MemberSubscription], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Member id -> partitions: per topic an unbroken range each, the first members one more.

    Topics that are not in `partition_counts` do not exist and are left out.
    """
    ordered = sorted(members, key=_member_order)
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
    for topic in sorted({topic for member in ordered for topic in member.topics}):
        takers = [member for member in ordered if topic in member.topics]
        share, remainder = divmod(partition_counts.get(topic, 0), len(takers))
        first = 0
        for index, member in enumerate(takers):
            count = share + (1 if index < remainder else 0)
            assigned[member.member_id] += [
                TopicPartition(topic, partition) for partition in range(first, first + count)
            ]
            first += count
    return assigned


def _member_order(member: MemberSubscription) -> tuple[bool, str]:
    if member.instance_id is not None:
        return (False, member.instance_id)
    return (True, member.member_id)


def _version(data: Buffer) -> int:
    version = int.from_bytes(bytes(data[:_VERSION_BYTES]), "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        msg = "consumer protocol bytes without a version"
        raise ClientError(msg)
    return min(version, _VERSION_MAX)
