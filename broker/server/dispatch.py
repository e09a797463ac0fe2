"""Which function answers which API: one row each. A new API is a message file, a handler and a row here."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """How a handler is called.

    RAW: by the connection with undecoded bytes (Produce, Fetch). REPLY: `handle(broker, context, request, reply)`, calls `reply(response)`
    exactly once, now or later. TASK: `await handle(broker, context, request)` in a task of its own.
    """

    RAW = "raw"
    REPLY = "reply"
    TASK = "task"


class Handler(NamedTuple):
    """`module` under broker.server.handlers and the `function` in it."""

    api_key: int
    module: str
    function: str
    kind: Kind


HANDLERS: tuple[Handler, ...] = (
    Handler(0, "produce", "handle_produce", Kind.RAW),
    Handler(1, "fetch", "handle_fetch", Kind.RAW),
    Handler(2, "list_offsets", "handle_list_offsets", Kind.TASK),
    Handler(3, "metadata", "handle_metadata", Kind.TASK),
    Handler(8, "offset_commit", "handle_offset_commit", Kind.REPLY),
    Handler(9, "offset_fetch", "handle_offset_fetch", Kind.REPLY),
    Handler(10, "find_coordinator", "handle_find_coordinator", Kind.TASK),
    Handler(11, "join_group", "handle_join_group", Kind.REPLY),
    Handler(12, "heartbeat", "handle_heartbeat", Kind.REPLY),
    Handler(13, "leave_group", "handle_leave_group", Kind.REPLY),
    Handler(14, "sync_group", "handle_sync_group", Kind.REPLY),
    Handler(15, "describe_groups", "handle_describe_groups", Kind.REPLY),
    Handler(16, "list_groups", "handle_list_groups", Kind.REPLY),
    Handler(18, "api_versions", "handle_api_versions", Kind.REPLY),
    Handler(19, "create_topics", "handle_create_topics", Kind.TASK),
    Handler(20, "delete_topics", "handle_delete_topics", Kind.TASK),
    Handler(22, "init_producer_id", "handle_init_producer_id", Kind.TASK),
    Handler(23, "offset_for_leader_epoch", "handle_offset_for_leader_epoch", Kind.REPLY),
    Handler(32, "describe_configs", "handle_describe_configs", Kind.TASK),
    Handler(37, "create_partitions", "handle_create_partitions", Kind.TASK),
    Handler(42, "delete_groups", "handle_delete_groups", Kind.REPLY),
    Handler(44, "incremental_alter_configs", "handle_incremental_alter_configs", Kind.TASK),
    Handler(60, "describe_cluster", "handle_describe_cluster", Kind.REPLY),
    Handler(75, "describe_topic_partitions", "handle_describe_topic_partitions", Kind.REPLY),
)
