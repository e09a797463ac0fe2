"""What a declaration means: versions, nulls, tags, defaults, and what cannot be expressed."""

from __future__ import annotations

import pytest

from broker.wire.fields import parse_versions
from broker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from broker.wire.messages.join_group import JoinGroupResponse
from broker.wire.messages.metadata import MetadataRequest, MetadataResponse
from broker.wire.primitives import EncodeError, MalformedMessage, read_uvarint, uvarint
from broker.wire.schema import (
    INT16,
    STRING,
    array,
    bytes_,
    decoder,
    encoder,
    int8,
    int32,
    int64,
    message,
    nested,
    string,
    struct,
)


@struct
class Inner:
    """A struct with a tag of its own."""

    number: int = int32(7)
    note: str | None = string(None, versions="2+", nullable="2+", tag=3)


@message(versions="0-3", flexible="2+")
class Outer:
    """One of everything that the real messages use seldom."""

    first: int = int8(1)
    text: str | None = string(nullable="1+")
    maybe: Inner | None = nested(Inner, None, versions="1+", nullable="1+")
    always: Inner = nested(Inner, versions="2+")
    late: int = int64(-1, versions="3+")
    dropped: int = int64(-1, versions="3+", ignorable=True)
    names: list[str] = array(STRING, versions="1+")
    shorts: list[int] = array(INT16)
    tagged: bytes = bytes_(versions="2+", tag=0)


def encode(value: object, version: int) -> bytes:
    out = bytearray()
    encoder(type(value), version)(out, value)
    return bytes(out)


def decode(message_type: type, data: bytes, version: int) -> object:
    value, end = decoder(message_type, version)(memoryview(data), 0)
    assert end == len(data)
    return value


def test_every_message_starts_at_its_defaults_with_lists_of_its_own() -> None:
    one, other = Outer(), Outer()
    one.names.append("x")
    one.always.number = 8
    assert other.names == []
    assert other.always == Inner(number=7)
    assert one != other
    assert Outer() == Outer()
    assert Outer() != Inner()


def test_repr_names_the_fields() -> None:
    assert repr(Inner(number=3)) == "Inner(number=3, note=None)"


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError):
        Inner(nubmer=3)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Inner().nubmer = 3  # type: ignore[attr-defined]


def test_layout_of_a_version_that_is_not_flexible() -> None:
    value = Outer(first=-2, text=None, maybe=Inner(number=1), names=["ab"], shorts=[3, -1])
    data = (
        b"\xfe"
        + b"\xff\xff"
        + b"\x01\0\0\0\x01"
        + b"\0\0\0\x01\0\x02ab"
        + b"\0\0\0\x02\0\x03\xff\xff"
    )
    assert encode(value, 1) == data
    assert decode(Outer, data, 1) == value


def test_layout_of_a_flexible_version() -> None:
    value = Outer(text="hé", maybe=None, always=Inner(number=2, note="n"), late=5, tagged=b"T")
    data = (
        b"\x01" + b"\x04h\xc3\xa9" + b"\xff" + b"\0\0\0\x02\x01\x03\x02\x02n" + bytes(7) + b"\x05"
        + b"\xff" * 8 + b"\x01" + b"\x01" + b"\x01\0\x02\x02T"
    )  # fmt: skip
    assert encode(value, 3) == data
    assert decode(Outer, data, 3) == value


def test_unknown_tags_are_skipped_and_known_ones_kept() -> None:
    inner = b"\0\0\0\x02" + b"\x02" + b"\x03\x02\x02n" + b"\x90\x01\x03abc"
    data = b"\x01\x01\xff" + inner + b"\x01\x01" + b"\x02" + b"\0\x02\x02T" + b"\x05\x00"
    value = decode(Outer, data, 2)
    assert value == Outer(text="", always=Inner(number=2, note="n"), tagged=b"T")


@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\0\x03\x02T",  # longer than announced
        b"\x01\0\x01\x02T",  # shorter than announced
        b"\x01\x07\x05abc",  # unknown, beyond the end
        b"\x7f",
        b"\x81",
    ],
)
def test_broken_tag_sections_are_malformed(tags: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(Outer, b"\x01\x01\xff" + b"\0\0\0\x02\0" + b"\x01\x01" + tags, 2)


def test_a_value_that_the_version_lacks_is_refused_unless_ignorable() -> None:
    with pytest.raises(EncodeError, match="late"):
        encode(Outer(late=4), 2)
    assert encode(Outer(dropped=4), 2) == encode(Outer(), 2)
    with pytest.raises(EncodeError, match="names"):
        encode(Outer(names=["x"]), 0)
    with pytest.raises(EncodeError, match="maybe"):
        encode(Outer(maybe=Inner()), 0)
    with pytest.raises(EncodeError, match="replica_state"):
        encode(FetchRequest(replica_state=ReplicaState(replica_id=1)), 12)


def test_ignorable_fields_of_real_messages_are_dropped() -> None:
    assert encode(JoinGroupResponse(throttle_time_ms=9), 1) == encode(JoinGroupResponse(), 1)
    partition = FetchPartition(current_leader_epoch=3)
    assert encode(FetchRequest(topics=[FetchTopic(partitions=[partition])]), 4)


@pytest.mark.parametrize(
    "value",
    [
        Outer(text=3),  # type: ignore[arg-type]
        Outer(first=128),
        Outer(first=None),  # type: ignore[arg-type]
        Outer(names=None),  # type: ignore[arg-type]
        Outer(names=[None]),  # type: ignore[list-item]
        Outer(text="\ud800"),
        Outer(text="x" * 32768),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Outer) -> None:
    with pytest.raises(EncodeError):
        encode(value, 1)


def test_ids_must_have_16_bytes() -> None:
    with pytest.raises(EncodeError, match="16 bytes"):
        encode(FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13)


def test_null_where_it_is_not_allowed_is_malformed() -> None:
    assert decode(MetadataRequest, b"\xff\xff\xff\xff", 1) == MetadataRequest(topics=None)
    with pytest.raises(MalformedMessage):
        decode(MetadataRequest, b"\xff\xff\xff\xff", 0)


def test_a_string_is_no_longer_than_an_int16_can_say_in_any_encoding() -> None:
    longest = Outer(text="x" * 32_767)
    assert decode(Outer, encode(longest, 2), 2) == longest
    with pytest.raises(MalformedMessage, match="text has 32768 bytes"):
        decode(Outer, encode(Outer(text="x" * 32_768), 2), 2)


def test_a_version_that_does_not_exist_has_no_codec() -> None:
    for version in (-1, 14):
        with pytest.raises(EncodeError):
            decoder(MetadataResponse, version)
        with pytest.raises(EncodeError):
            encoder(MetadataResponse, version)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**21, 2**31 - 1, 2**32 - 1])
def test_varint_reads_back(value: int) -> None:
    data = uvarint(value)
    assert read_uvarint(b"-" + data, 1) == (value, 1 + len(data))


@pytest.mark.parametrize("data", [b"\xff" * 5 + b"\x01", b"\xff\xff\xff\xff\x10", b"\x80" * 9])
def test_varint_of_more_than_32_bits_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_uvarint(data, 0)


def test_version_ranges() -> None:
    assert 3 in parse_versions("3+")
    assert 2 not in parse_versions("3+")
    assert 2 in parse_versions("0-2")
    assert 3 not in parse_versions("0-2")
    assert 0 not in parse_versions("none")
    with pytest.raises(ValueError, match="invalid literal"):
        parse_versions("all")
