"""What a shard of the group coordinator stores, and its form in the log: Kafka's own versioned
schemas.

A record in memory is one of four tuples (`Record`); in the log it is a key and a value, each an
int16 version and a message of that version. A null value removes the key. Not here: what a record
does (stored), batches and files (log). Source: the message schemas OffsetCommitKey/Value and
GroupMetadataKey/Value of Apache Kafka 4.
"""

from __future__ import annotations

import struct as byte_struct
from typing import Final, NamedTuple

from broker.model import NO_TIMESTAMP, NO_TOPIC_ID
from broker.wire.primitives import MalformedMessage
from broker.wire.schema import (
    array,
    bytes_,
    decoder,
    encoder,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)

OFFSET_KEY_VERSION: Final = 1
OFFSET_VALUE_VERSION: Final = 4
GROUP_KEY_VERSION: Final = 2
GROUP_VALUE_VERSION: Final = 3


class OffsetCommitted(NamedTuple):
    """A commit. `topic_id` is zero when a writer older than value version 4 made it.

    `expire_timestamp_ms` is -1 unless the record asked for a retention of its own (value version
    1).
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    topic_id: bytes = NO_TOPIC_ID
    expire_timestamp_ms: int = NO_TIMESTAMP


class OffsetRemoved(NamedTuple):
    """The commit is gone: expired, its group deleted, or its topic."""

    group: str
    topic: str
    partition: int


class StoredMember(NamedTuple):
    """A member of a stored generation; `subscription` is its metadata for the chosen protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupStored(NamedTuple):
    """A generation with its assignment; without members the group is Empty since
    `state_timestamp_ms`.
    """

    group: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


class GroupRemoved(NamedTuple):
    """The group is gone; its offsets have records of their own."""

    group: str


Record = OffsetCommitted | OffsetRemoved | GroupStored | GroupRemoved
LogPair = tuple[bytes, bytes | None]


@message(versions="0-1", flexible="none")
class OffsetCommitKey:
    """Key versions 0 and 1: a commit."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """The committed position of one partition."""

    offset: int = int64()
    leader_epoch: int = int32(-1, versions="3+", ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(-1, versions="1", ignorable=True)
    topic_id: bytes = uuid(versions="4+", tag=0, ignorable=True)


@message(versions="2", flexible="none")
class GroupMetadataKey:
    """Key version 2: a group's metadata."""

    group: str = string()


@struct
class MemberMetadata:
    """One member inside GroupMetadataValue."""

    member_id: str = string()
    group_instance_id: str | None = string(None, versions="3+", nullable="3+", ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(versions="1+", ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


@message(versions="0-3", flexible="none")
class GroupMetadataValue:
    """A generation of a classic group."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(None, nullable="0+")
    leader: str | None = string(None, nullable="0+")
    current_state_timestamp: int = int64(-1, versions="2+", ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


def to_log(record: Record) -> LogPair:
    """The key and the value (None: a tombstone) that store `record`."""
    match record:
        case OffsetCommitted():
            return _offset_key(record), _offset_value(record)
        case OffsetRemoved():
            return _offset_key(record), None
        case GroupStored():
            return _group_key(record.group), _group_value(record)
        case GroupRemoved():
            return _group_key(record.group), None


def from_log(key: bytes, value: bytes | None) -> Record | None:
    """The record that a log entry stores; None for a key of a kind that is not ours.

    Raises MalformedMessage for bytes that do not parse and for a value newer than this version
    reads.
    """
    version = _version(key)
    if version in (0, OFFSET_KEY_VERSION):
        return _offset_record(key, version, value)
    if version == GROUP_KEY_VERSION:
        return _group_record(key, value)
    return None


_VERSION = byte_struct.Struct(">h")
_encode_offset_key = encoder(OffsetCommitKey, OFFSET_KEY_VERSION)
_encode_offset_value = encoder(OffsetCommitValue, OFFSET_VALUE_VERSION)
_encode_group_key = encoder(GroupMetadataKey, GROUP_KEY_VERSION)
_encode_group_value = encoder(GroupMetadataValue, GROUP_VALUE_VERSION)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"a stored group record of {len(data)} bytes has no version")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _offset_key(record: OffsetCommitted | OffsetRemoved) -> bytes:
    out = bytearray(_VERSION.pack(OFFSET_KEY_VERSION))
    key = OffsetCommitKey(group=record.group, topic=record.topic, partition=record.partition)
    _encode_offset_key(out, key)
    return bytes(out)


def _offset_value(record: OffsetCommitted) -> bytes:
    out = bytearray(_VERSION.pack(OFFSET_VALUE_VERSION))
    value = OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        topic_id=record.topic_id,
    )
    _encode_offset_value(out, value)
    return bytes(out)


def _group_key(group: str) -> bytes:
    out = bytearray(_VERSION.pack(GROUP_KEY_VERSION))
    _encode_group_key(out, GroupMetadataKey(group=group))
    return bytes(out)


def _group_value(record: GroupStored) -> bytes:
    out = bytearray(_VERSION.pack(GROUP_VALUE_VERSION))
    value = GroupMetadataValue(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in record.members
        ],
    )
    _encode_group_value(out, value)
    return bytes(out)


def _offset_record(key: bytes, key_version: int, value: bytes | None) -> Record:
    stored_key, _ = decoder(OffsetCommitKey, key_version)(memoryview(key), _VERSION.size)
    group, topic, partition = stored_key.group, stored_key.topic, stored_key.partition
    if value is None:
        return OffsetRemoved(group, topic, partition)
    version = _value_version(value, OFFSET_VALUE_VERSION, "offset commit")
    stored, _ = decoder(OffsetCommitValue, version)(memoryview(value), _VERSION.size)
    return OffsetCommitted(
        group,
        topic,
        partition,
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp,
        stored.topic_id,
        stored.expire_timestamp,
    )


def _group_record(key: bytes, value: bytes | None) -> Record:
    stored_key, _ = decoder(GroupMetadataKey, GROUP_KEY_VERSION)(memoryview(key), _VERSION.size)
    if value is None:
        return GroupRemoved(stored_key.group)
    version = _value_version(value, GROUP_VALUE_VERSION, "group metadata")
    stored, _ = decoder(GroupMetadataValue, version)(memoryview(value), _VERSION.size)
    return GroupStored(
        stored_key.group,
        stored.protocol_type,
        stored.generation,
        stored.protocol,
        stored.leader,
        stored.current_state_timestamp,
        tuple(_stored_member(member, version) for member in stored.members),
    )


def _stored_member(member: MemberMetadata, version: int) -> StoredMember:
    has_rebalance_timeout = version >= 1
    return StoredMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout if has_rebalance_timeout else member.session_timeout,
        member.session_timeout,
        bytes(member.subscription),
        bytes(member.assignment),
    )


def _value_version(value: bytes, version_max: int, kind: str) -> int:
    version = _version(value)
    if not 0 <= version <= version_max:
        raise MalformedMessage(
            f"a stored {kind} has version {version}, this broker reads 0 to {version_max}"
        )
    return version
