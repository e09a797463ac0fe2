"""Which API has which messages, and over which versions this broker answers it: one row each.

`min_version` and `max_version` are what ApiVersions advertises. Produce advertises 0 although
codecs begin at 3: old librdkafka sends its batches uncompressed to a broker whose minimum is 3.
Versions 0 to 2, if really sent, get an UNSUPPORTED_VERSION from the server.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from broker.wire.fields import VERSION_MAX
from broker.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from broker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from broker.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from broker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from broker.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from broker.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from broker.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from broker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from broker.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from broker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from broker.wire.messages.fetch import FetchRequest, FetchResponse
from broker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from broker.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from broker.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from broker.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from broker.wire.messages.metadata import MetadataRequest, MetadataResponse
from broker.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from broker.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from broker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from broker.wire.messages.produce import ProduceRequest, ProduceResponse
from broker.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.schema import message_info

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
DESCRIBE_LOG_DIRS: Final = 35
CREATE_PARTITIONS: Final = 37
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
CONSUMER_GROUP_DESCRIBE: Final = 69
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75

NEVER_FLEXIBLE: Final = VERSION_MAX + 1


class Api(NamedTuple):
    """One API. Versions are inclusive; `codec_from` is the first version that codecs exist for;
    `flexible_from` is NEVER_FLEXIBLE when no version is flexible.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    request_type: type[Any]
    response_type: type[Any]
    codec_from: int


def _api(
    name: str,
    request_type: type[Any],
    response_type: type[Any],
    *,
    advertise_from: int | None = None,
) -> Api:
    info = message_info(request_type)
    first, last = info.versions
    flexible_from = (
        info.flexible.first if info.flexible.last >= info.flexible.first else NEVER_FLEXIBLE
    )
    min_version = first if advertise_from is None else advertise_from
    return Api(
        info.api_key,
        name,
        min_version,
        last,
        flexible_from,
        request_type,
        response_type,
        first,
    )


_TABLE: Final = (
    _api("Produce", ProduceRequest, ProduceResponse, advertise_from=0),
    _api("Fetch", FetchRequest, FetchResponse),
    _api("ListOffsets", ListOffsetsRequest, ListOffsetsResponse),
    _api("Metadata", MetadataRequest, MetadataResponse),
    _api("OffsetCommit", OffsetCommitRequest, OffsetCommitResponse),
    _api("OffsetFetch", OffsetFetchRequest, OffsetFetchResponse),
    _api("FindCoordinator", FindCoordinatorRequest, FindCoordinatorResponse),
    _api("JoinGroup", JoinGroupRequest, JoinGroupResponse),
    _api("Heartbeat", HeartbeatRequest, HeartbeatResponse),
    _api("LeaveGroup", LeaveGroupRequest, LeaveGroupResponse),
    _api("SyncGroup", SyncGroupRequest, SyncGroupResponse),
    _api("DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse),
    _api("ListGroups", ListGroupsRequest, ListGroupsResponse),
    _api("SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse),
    _api("ApiVersions", ApiVersionsRequest, ApiVersionsResponse),
    _api("CreateTopics", CreateTopicsRequest, CreateTopicsResponse),
    _api("DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse),
    _api("DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse),
    _api("InitProducerId", InitProducerIdRequest, InitProducerIdResponse),
    _api("OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    _api("DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse),
    _api("AlterConfigs", AlterConfigsRequest, AlterConfigsResponse),
    _api("DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse),
    _api("CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse),
    _api("DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse),
    _api("ElectLeaders", ElectLeadersRequest, ElectLeadersResponse),
    _api(
        "IncrementalAlterConfigs", IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
    ),
    _api(
        "ListPartitionReassignments",
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    ),
    _api("OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse),
    _api("DescribeCluster", DescribeClusterRequest, DescribeClusterResponse),
    _api("DescribeProducers", DescribeProducersRequest, DescribeProducersResponse),
    _api("ListConfigResources", ListConfigResourcesRequest, ListConfigResourcesResponse),
    _api(
        "DescribeTopicPartitions", DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
    ),
)

_OF_OTHER_BROKERS: Final = (
    _api("ConsumerGroupDescribe", ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
)
"""What our client asks of brokers that answer it; this one does not."""

APIS: Final[dict[int, Api]] = {api.key: api for api in _TABLE}
CLIENT_APIS: Final[dict[int, Api]] = {api.key: api for api in (*_TABLE, *_OF_OTHER_BROKERS)}
"""Every API that there are codecs for."""


def is_supported(key: int, version: int) -> bool:
    """Whether a request of that API and version can be decoded and may be answered."""
    api = APIS.get(key)
    return api is not None and api.codec_from <= version <= api.max_version


def request_header_version(key: int, version: int) -> int:
    """1, or 2 (with a tag section) for flexible versions. An unknown API counts as not flexible."""
    api = CLIENT_APIS.get(key)
    return 2 if api is not None and version >= api.flexible_from else 1


def response_header_version(key: int, version: int) -> int:
    """0, or 1 (with a tag section) for flexible versions; always 0 for ApiVersions (KIP-511)."""
    return request_header_version(key, version) - 1 if key != API_VERSIONS else 0
