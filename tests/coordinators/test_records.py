"""Stored records: the bytes are those of Kafka's schemas, and reading them back loses nothing."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinators.group.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    OffsetRemoved,
    StoredMember,
    from_log,
    to_log,
)
from broker.wire.primitives import MalformedMessage

TEXT = st.text(max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(
    StoredMember, TEXT, st.none() | TEXT, TEXT, TEXT, INT32, INT32, st.binary(), st.binary()
)
RECORDS = st.one_of(
    st.builds(
        OffsetCommitted, TEXT, TEXT, INT32, INT64, INT32, TEXT, INT64,
        st.binary(min_size=16, max_size=16), st.just(-1),
    ),
    st.builds(OffsetRemoved, TEXT, TEXT, INT32),
    st.builds(
        GroupStored, TEXT, TEXT, INT32, st.none() | TEXT, st.none() | TEXT, INT64,
        st.lists(MEMBERS, max_size=3).map(tuple),
    ),
    st.builds(GroupRemoved, TEXT),
)  # fmt: skip


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


@given(RECORDS)
def test_what_is_stored_is_read_back(record: object) -> None:
    assert from_log(*to_log(record)) == record  # type: ignore[arg-type]


def test_commit_has_the_bytes_of_the_published_schema() -> None:
    record = OffsetCommitted("g", "orders", 3, 42, 5, "note", 1_700_000_000_000, bytes(range(16)))
    key, value = to_log(record)
    assert key == struct.pack(">h", 1) + text("g") + text("orders") + struct.pack(">i", 3)
    # Version 4 is flexible: compact string (length + 1), then a tag section with tag 0, 16 bytes.
    expected = struct.pack(">hqi", 4, 42, 5) + b"\x05note" + struct.pack(">q", 1_700_000_000_000)
    assert value == expected + b"\x01\x00\x10" + bytes(range(16))


def test_generation_has_the_bytes_of_the_published_schema() -> None:
    member = StoredMember("m", None, "c", "/h", 60_000, 10_000, b"sub", b"all")
    key, value = to_log(GroupStored("g", "consumer", 7, "range", "m", 99, (member,)))
    assert key == struct.pack(">h", 2) + text("g")
    expected = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 7)
    expected += text("range") + text("m") + struct.pack(">qi", 99, 1)
    expected += text("m") + struct.pack(">h", -1) + text("c") + text("/h")
    expected += struct.pack(">ii", 60_000, 10_000)
    expected += struct.pack(">i", 3) + b"sub" + struct.pack(">i", 3) + b"all"
    assert value == expected


@pytest.mark.parametrize(
    ("version", "body", "epoch", "expires"),
    [
        (0, struct.pack(">q", 42) + text("x") + struct.pack(">q", 9), -1, -1),
        (1, struct.pack(">q", 42) + text("x") + struct.pack(">qq", 9, 77), -1, 77),
        (2, struct.pack(">q", 42) + text("x") + struct.pack(">q", 9), -1, -1),
        (3, struct.pack(">qi", 42, 6) + text("x") + struct.pack(">q", 9), 6, -1),
        (4, struct.pack(">qi", 42, 6) + b"\x02x" + struct.pack(">q", 9) + b"\x00", 6, -1),
    ],
)
def test_commits_of_every_version_are_read(
    version: int, body: bytes, epoch: int, expires: int
) -> None:
    key, _ = to_log(OffsetRemoved("g", "t", 0))
    record = from_log(key, struct.pack(">h", version) + body)
    assert record == OffsetCommitted("g", "t", 0, 42, epoch, "x", 9, bytes(16), expires)


@pytest.mark.parametrize("version", range(4))
def test_generations_of_every_version_are_read(version: int) -> None:
    body = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 7)
    body += text("range") + text("m")
    body += struct.pack(">q", 99) if version >= 2 else b""
    body += struct.pack(">i", 1) + text("m")
    body += text("node") if version >= 3 else b""
    body += text("c") + text("/h")
    body += struct.pack(">i", 60_000) if version >= 1 else b""
    body += struct.pack(">iii", 10_000, 0, 0)
    record = from_log(to_log(GroupRemoved("g"))[0], body)
    assert isinstance(record, GroupStored)
    assert record.state_timestamp_ms == (99 if version >= 2 else -1)
    assert record.members[0].instance_id == ("node" if version >= 3 else None)
    assert record.members[0].rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)


def test_key_of_another_kind_is_passed_over() -> None:
    assert from_log(struct.pack(">h", 3) + text("g"), b"\x00\x00") is None


@pytest.mark.parametrize("value", [b"", b"\x00", struct.pack(">h", 5), struct.pack(">hq", 3, 1)])
def test_value_that_does_not_parse_is_named(value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        from_log(to_log(OffsetRemoved("g", "t", 0))[0], value)
