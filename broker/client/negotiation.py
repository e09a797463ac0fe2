"""Which version of each API both sides speak: one ApiVersions request per connection."""

from __future__ import annotations

from typing import Final

from broker.client.connection import Connection
from broker.client.failure import BrokerRefusal, ConnectionLost, Unsupported
from broker.errors import ErrorCode, error_code
from broker.wire.api import API_VERSIONS, CLIENT_APIS
from broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.primitives import MalformedMessage
from broker.wire.schema import decoder

ApiRanges = dict[int, tuple[int, int]]
"""API key -> (lowest, highest) version that the broker answers."""

API_NAMES: Final = {
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    36: "SaslAuthenticate",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    45: "AlterPartitionReassignments",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    68: "ConsumerGroupHeartbeat",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
    93: "StreamsGroupTopologyDescriptionUpdate",
    94: "UnregisterController",
}
"""Names of APIs that this client does not speak, for those who list what a broker offers."""

SOFTWARE_NAME: Final = "hermesmq"
SOFTWARE_VERSION: Final = "0.1.0"
_CORRELATION_ID_BYTES: Final = 4


async def negotiate(connection: Connection, client_id: str, *, timeout_ms: int) -> ApiRanges:
    """What the broker speaks. Raises ConnectionLost, TimedOut, BrokerRefusal.

    A broker that does not know our version of ApiVersions answers in version 0 and names its own.
    """
    version = CLIENT_APIS[API_VERSIONS].max_version
    for _ in range(2):
        answer = await _ask(connection, client_id, version, timeout_ms)
        code = error_code(answer.error_code)
        ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        if code is ErrorCode.NONE:
            return ranges
        if code is not ErrorCode.UNSUPPORTED_VERSION:
            raise BrokerRefusal(code, subject=connection.address)
        version = min(version, ranges.get(API_VERSIONS, (0, 0))[1])
    msg = f"{connection.address} agrees on no version of ApiVersions"
    raise Unsupported(msg)


async def _ask(
    connection: Connection, client_id: str, version: int, timeout_ms: int
) -> ApiVersionsResponse:
    message = ApiVersionsRequest()
    if version >= 3:
        message.client_software_name = SOFTWARE_NAME
        message.client_software_version = SOFTWARE_VERSION
    raw: memoryview = await connection.request(
        API_VERSIONS, version, client_id, message, timeout_ms=timeout_ms, is_raw=True
    )
    refused = raw[_CORRELATION_ID_BYTES : _CORRELATION_ID_BYTES + 2]
    if int.from_bytes(refused, "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    try:
        answer, _ = decoder(ApiVersionsResponse, version)(raw, _CORRELATION_ID_BYTES)
    except MalformedMessage as error:
        connection.close()
        msg = f"{connection.address} is no Kafka broker: {error}"
        raise ConnectionLost(msg) from None
    return answer


def choose_version(ranges: ApiRanges, api_key: int, max_version: int | None) -> int:
    """The highest version that both sides speak, `max_version` at most. Raises Unsupported."""
    ours = CLIENT_APIS[api_key]
    lowest, highest = ranges.get(api_key, (0, -1))
    version = min(ours.max_version, highest)
    if max_version is not None:
        version = min(version, max_version)
    if version < max(ours.codec_from, lowest):
        have = f"speaks {lowest} to {highest}" if api_key in ranges else "does not offer it"
        msg = f"{ours.name}: the broker {have}, this client {ours.codec_from} to {ours.max_version}"
        raise Unsupported(msg)
    return version


def common_version(ranges: ApiRanges, api_key: int) -> int | None:
    """The version that `choose_version` would choose, None when there is none or the API is
    unknown here.
    """
    if api_key not in CLIENT_APIS:
        return None
    try:
        return choose_version(ranges, api_key, None)
    except Unsupported:
        return None
