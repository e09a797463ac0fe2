"""Which function answers which API: one row each.

A new API is a message file, a handler and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from broker.server.handlers.alter_configs import handle_alter_configs
from broker.server.handlers.api_versions import handle_api_versions
from broker.server.handlers.create_partitions import handle_create_partitions
from broker.server.handlers.create_topics import handle_create_topics
from broker.server.handlers.delete_groups import handle_delete_groups
from broker.server.handlers.delete_records import handle_delete_records
from broker.server.handlers.delete_topics import handle_delete_topics
from broker.server.handlers.describe_cluster import handle_describe_cluster
from broker.server.handlers.describe_configs import handle_describe_configs
from broker.server.handlers.describe_groups import handle_describe_groups
from broker.server.handlers.describe_log_dirs import handle_describe_log_dirs
from broker.server.handlers.describe_producers import handle_describe_producers
from broker.server.handlers.describe_topic_partitions import handle_describe_topic_partitions
from broker.server.handlers.elect_leaders import handle_elect_leaders
from broker.server.handlers.fetch import handle_fetch
from broker.server.handlers.find_coordinator import handle_find_coordinator
from broker.server.handlers.heartbeat import handle_heartbeat
from broker.server.handlers.incremental_alter_configs import handle_incremental_alter_configs
from broker.server.handlers.init_producer_id import handle_init_producer_id
from broker.server.handlers.join_group import handle_join_group
from broker.server.handlers.leave_group import handle_leave_group
from broker.server.handlers.list_config_resources import handle_list_config_resources
from broker.server.handlers.list_groups import handle_list_groups
from broker.server.handlers.list_offsets import handle_list_offsets
from broker.server.handlers.list_partition_reassignments import handle_list_partition_reassignments
from broker.server.handlers.metadata import handle_metadata
from broker.server.handlers.offset_commit import handle_offset_commit
from broker.server.handlers.offset_delete import handle_offset_delete
from broker.server.handlers.offset_fetch import handle_offset_fetch
from broker.server.handlers.offset_for_leader_epoch import handle_offset_for_leader_epoch
from broker.server.handlers.produce import handle_produce
from broker.server.handlers.sasl_handshake import handle_sasl_handshake
from broker.server.handlers.sync_group import handle_sync_group
from broker.wire import api as apis


class Kind(Enum):
    """How a handler is called.

    RAW: `handle(connection, header, frame)` with undecoded bytes (Produce, Fetch). REPLY:
    `handle(broker, context, request, reply)`, calls `reply(response)` exactly once, now or later.
    TASK: `await handle(broker, context, request)` in a task of its own.
    """

    RAW = "raw"
    REPLY = "reply"
    TASK = "task"


class Handler(NamedTuple):
    """One row."""

    api_key: int
    handle: Callable[..., Any]
    kind: Kind


HANDLERS: Final = (
    Handler(apis.PRODUCE, handle_produce, Kind.RAW),
    Handler(apis.FETCH, handle_fetch, Kind.RAW),
    Handler(apis.LIST_OFFSETS, handle_list_offsets, Kind.TASK),
    Handler(apis.METADATA, handle_metadata, Kind.TASK),
    Handler(apis.OFFSET_COMMIT, handle_offset_commit, Kind.REPLY),
    Handler(apis.OFFSET_FETCH, handle_offset_fetch, Kind.REPLY),
    Handler(apis.FIND_COORDINATOR, handle_find_coordinator, Kind.TASK),
    Handler(apis.JOIN_GROUP, handle_join_group, Kind.REPLY),
    Handler(apis.HEARTBEAT, handle_heartbeat, Kind.REPLY),
    Handler(apis.LEAVE_GROUP, handle_leave_group, Kind.REPLY),
    Handler(apis.SYNC_GROUP, handle_sync_group, Kind.REPLY),
    Handler(apis.DESCRIBE_GROUPS, handle_describe_groups, Kind.REPLY),
    Handler(apis.LIST_GROUPS, handle_list_groups, Kind.REPLY),
    Handler(apis.SASL_HANDSHAKE, handle_sasl_handshake, Kind.REPLY),
    Handler(apis.API_VERSIONS, handle_api_versions, Kind.REPLY),
    Handler(apis.CREATE_TOPICS, handle_create_topics, Kind.TASK),
    Handler(apis.DELETE_TOPICS, handle_delete_topics, Kind.TASK),
    Handler(apis.DELETE_RECORDS, handle_delete_records, Kind.TASK),
    Handler(apis.INIT_PRODUCER_ID, handle_init_producer_id, Kind.TASK),
    Handler(apis.OFFSET_FOR_LEADER_EPOCH, handle_offset_for_leader_epoch, Kind.REPLY),
    Handler(apis.DESCRIBE_CONFIGS, handle_describe_configs, Kind.TASK),
    Handler(apis.ALTER_CONFIGS, handle_alter_configs, Kind.TASK),
    Handler(apis.DESCRIBE_LOG_DIRS, handle_describe_log_dirs, Kind.TASK),
    Handler(apis.CREATE_PARTITIONS, handle_create_partitions, Kind.TASK),
    Handler(apis.DELETE_GROUPS, handle_delete_groups, Kind.REPLY),
    Handler(apis.ELECT_LEADERS, handle_elect_leaders, Kind.TASK),
    Handler(apis.INCREMENTAL_ALTER_CONFIGS, handle_incremental_alter_configs, Kind.TASK),
    Handler(apis.LIST_PARTITION_REASSIGNMENTS, handle_list_partition_reassignments, Kind.REPLY),
    Handler(apis.OFFSET_DELETE, handle_offset_delete, Kind.REPLY),
    Handler(apis.DESCRIBE_CLUSTER, handle_describe_cluster, Kind.REPLY),
    Handler(apis.DESCRIBE_PRODUCERS, handle_describe_producers, Kind.TASK),
    Handler(apis.LIST_CONFIG_RESOURCES, handle_list_config_resources, Kind.TASK),
    Handler(apis.DESCRIBE_TOPIC_PARTITIONS, handle_describe_topic_partitions, Kind.TASK),
)
