"""Fetch (1): plan by session, then let `PendingFetch` read, wait and answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.server.fetching import PendingFetch
from broker.wire.api import FETCH
from broker.wire.fast_fetch import encode_fetch_response_parts
from broker.wire.fast_fetch_request import decode_fetch
from broker.wire.frame import RequestHeader

if TYPE_CHECKING:
    from broker.server.connection import Connection

_TOPIC_IDS_FROM: Final = 13


def handle_fetch(connection: Connection, header: RequestHeader, frame: memoryview) -> None:
    """Answer now or park. Raises MalformedMessage."""
    request = decode_fetch(frame, header.body_position, header.api_version)
    broker = connection.broker
    slot = connection.reserve(broker.routes[FETCH].metrics)
    settings = broker.settings
    try:
        plan = broker.fetch_sessions.plan(
            request,
            uses_ids=header.api_version >= _TOPIC_IDS_FROM,
            now_ms=connection.now_ms,
            session_count_max=settings.max_incremental_fetch_session_cache_slots,
            eviction_ms=settings.min_incremental_fetch_session_eviction_ms,
        )
    except Refusal as refusal:
        slot.api_metrics.count_error(refusal.code)
        slot.complete(
            encode_fetch_response_parts(
                header.api_version, header.correlation_id, [], error_code=refusal.code
            )
        )
        return
    # Followers come with replication and its own authentication; a client must not pass for one
    # (CVE-2018-1288).
    is_replica = request.replica_id >= 0
    refuse_all = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if is_replica else None
    PendingFetch(broker, slot, header, request, plan, refuse_all).start()
