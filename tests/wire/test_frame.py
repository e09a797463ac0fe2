"""Frames and headers."""

from __future__ import annotations

import struct

import pytest

from broker.wire import api, frame
from broker.wire.api import APIS
from broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.primitives import MalformedMessage
from broker.wire.schema import decoder
from tests.wire.samples import VERSIONS, message_type


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "größe"])
def test_request_header_reads_back_in_every_version(client_id: str | None) -> None:
    for row, direction, version in VERSIONS:
        if direction != "request":
            continue
        whole = frame.encode_request(row.key, version, -5, client_id, row.request_type())
        assert struct.unpack(">i", whole[:4])[0] == len(whole) - 4
        view = memoryview(whole)[4:]
        header = frame.decode_request_header(view)
        assert header[:4] == (row.key, version, -5, client_id)
        message, end = decoder(row.request_type, version)(view, header.body_position)
        assert message == row.request_type()
        assert end == len(view)


def test_response_reads_back_in_every_version() -> None:
    for row, direction, version in VERSIONS:
        if direction == "response":
            message = message_type(row, direction)()
            whole = frame.encode_response(row.key, version, 2**31 - 1, message)
            assert frame.decode_response(row.key, version, memoryview(whole)[4:]) == (
                2**31 - 1,
                message,
            )


def test_api_versions_response_header_never_has_a_tag_section() -> None:
    for version in range(5):
        whole = frame.encode_response(
            api.API_VERSIONS, version, 9, ApiVersionsResponse(error_code=35)
        )
        assert whole[8:10] == struct.pack(">h", 35)


@pytest.mark.parametrize("version", [5, 9, 99, 32767, -1])
def test_header_of_an_unknown_version_is_read_up_to_the_client_id(version: int) -> None:
    view = memoryview(struct.pack(">hhih", 18, version, 3, 2) + b"me" + b"\xff\xff\xff")
    assert frame.decode_request_header(view)[:4] == (18, version, 3, "me")


def test_header_of_an_unknown_api_is_read_up_to_the_client_id() -> None:
    view = memoryview(struct.pack(">hhih", 999, 0, 3, -1))
    assert frame.decode_request_header(view)[:4] == (999, 0, 3, None)


def test_unknown_tags_of_the_header_are_skipped() -> None:
    head = struct.pack(">hhih", 18, 3, 3, 2) + b"me"
    body = b"\x04abc\x041.0\x00"
    view = memoryview(head + b"\x02\x00\x01z\x90\x01\x00" + body)
    header = frame.decode_request_header(view)
    message, _ = decoder(ApiVersionsRequest, 3)(view, header.body_position)
    assert message == ApiVersionsRequest(client_software_name="abc", client_software_version="1.0")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\0" * 9,
        struct.pack(">hhih", 18, 0, 1, -2),
        struct.pack(">hhih", 18, 0, 1, 5) + b"four",
        struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 18, 3, 1, -1),
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x05\0",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x01\0\xff\xff\xff\xff\x0f",
    ],
)
def test_broken_request_header_is_malformed(header: bytes) -> None:
    with pytest.raises(MalformedMessage):
        frame.decode_request_header(memoryview(header))


@pytest.mark.parametrize("response", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\x07"])
def test_broken_response_header_is_malformed(response: bytes) -> None:
    with pytest.raises(MalformedMessage):
        frame.decode_response(api.METADATA, 12, memoryview(response))


def test_advertised_ranges_are_those_of_the_plan() -> None:
    assert {row.name: (row.min_version, row.max_version) for row in APIS.values()} == {
        "Produce": (0, 11), "Fetch": (4, 17), "ListOffsets": (1, 11), "Metadata": (0, 13),
        "OffsetCommit": (2, 9), "OffsetFetch": (1, 9), "FindCoordinator": (0, 6),
        "JoinGroup": (0, 9),
        "Heartbeat": (0, 4), "LeaveGroup": (0, 5), "SyncGroup": (0, 5), "DescribeGroups": (0, 6),
        "ListGroups": (0, 5), "SaslHandshake": (0, 1), "ApiVersions": (0, 4),
        "CreateTopics": (2, 7),
        "DeleteTopics": (1, 6), "InitProducerId": (0, 5),
        "OffsetForLeaderEpoch": (2, 4), "DescribeConfigs": (1, 4),
        "CreatePartitions": (0, 3), "DeleteGroups": (0, 2), "IncrementalAlterConfigs": (0, 1),
        "DescribeCluster": (0, 2), "DeleteRecords": (0, 2), "AlterConfigs": (0, 2),
        "DescribeLogDirs": (1, 5), "ElectLeaders": (0, 2), "ListPartitionReassignments": (0, 0),
        "OffsetDelete": (0, 0), "DescribeProducers": (0, 0), "ListConfigResources": (0, 1),
        "DescribeTopicPartitions": (0, 0),
    }  # fmt: skip
    assert not api.is_supported(api.SASL_HANDSHAKE, 2)
    assert not api.is_supported(api.PRODUCE, 2)
    assert api.is_supported(api.PRODUCE, 3)
