"""Which function answers which API: one row each. A new API is a message file, a handler and a
row here.
"""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import Any, Final, NamedTuple

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
    """`function` in broker/server/handlers/<module>.py."""

    api_key: int
    module: str
    function: str
    kind: Kind

    def load(self) -> Any:
        """The function."""
        return getattr(import_module(f"broker.server.handlers.{self.module}"), self.function)


HANDLERS: Final = (
    Handler(apis.PRODUCE, "produce", "handle_produce", Kind.RAW),
    Handler(apis.FETCH, "fetch", "handle_fetch", Kind.RAW),
    Handler(apis.LIST_OFFSETS, "list_offsets", "handle_list_offsets", Kind.TASK),
    Handler(apis.METADATA, "metadata", "handle_metadata", Kind.TASK),
    Handler(apis.OFFSET_COMMIT, "offset_commit", "handle_offset_commit", Kind.REPLY),
    Handler(apis.OFFSET_FETCH, "offset_fetch", "handle_offset_fetch", Kind.REPLY),
    Handler(apis.FIND_COORDINATOR, "find_coordinator", "handle_find_coordinator", Kind.TASK),
    Handler(apis.JOIN_GROUP, "join_group", "handle_join_group", Kind.REPLY),
    Handler(apis.HEARTBEAT, "heartbeat", "handle_heartbeat", Kind.REPLY),
    Handler(apis.LEAVE_GROUP, "leave_group", "handle_leave_group", Kind.REPLY),
    Handler(apis.SYNC_GROUP, "sync_group", "handle_sync_group", Kind.REPLY),
    Handler(apis.DESCRIBE_GROUPS, "describe_groups", "handle_describe_groups", Kind.REPLY),
    Handler(apis.LIST_GROUPS, "list_groups", "handle_list_groups", Kind.REPLY),
    Handler(apis.API_VERSIONS, "api_versions", "handle_api_versions", Kind.REPLY),
    Handler(apis.CREATE_TOPICS, "create_topics", "handle_create_topics", Kind.TASK),
    Handler(apis.DELETE_TOPICS, "delete_topics", "handle_delete_topics", Kind.TASK),
    Handler(apis.INIT_PRODUCER_ID, "init_producer_id", "handle_init_producer_id", Kind.TASK),
    Handler(
        apis.OFFSET_FOR_LEADER_EPOCH,
        "offset_for_leader_epoch",
        "handle_offset_for_leader_epoch",
        Kind.REPLY,
    ),
    Handler(apis.DESCRIBE_CONFIGS, "describe_configs", "handle_describe_configs", Kind.TASK),
    Handler(apis.CREATE_PARTITIONS, "create_partitions", "handle_create_partitions", Kind.TASK),
    Handler(apis.DELETE_GROUPS, "delete_groups", "handle_delete_groups", Kind.REPLY),
    Handler(
        apis.INCREMENTAL_ALTER_CONFIGS,
        "incremental_alter_configs",
        "handle_incremental_alter_configs",
        Kind.TASK,
    ),
    Handler(apis.DESCRIBE_CLUSTER, "describe_cluster", "handle_describe_cluster", Kind.REPLY),
)
