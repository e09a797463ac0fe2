"""Fetch (1): plan by session, then let `PendingFetch` read, wait and answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.server.fetching import PendingFetch
from broker.wire.api import FETCH
from broker.wire.fast_fetch import encode_fetch_response_parts
from broker.wire.frame import RequestHeader
from broker.wire.messages.fetch import FetchRequest
from broker.wire.schema import decoder

if TYPE_CHECKING:
    from broker.server.connection import Connection

_TOPIC_IDS_FROM: Final = 13


def handle_fetch(connection: Connection, header: RequestHeader, frame: memoryview) -> None:
    """Answer now or park. Raises MalformedMessage."""
    request, _ = decoder(FetchRequest, header.api_version)(frame, header.body_position)
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
    refuse_all = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if _claims_to_be_replica(request) else None
    PendingFetch(broker, slot, header, request, plan, refuse_all).start()


def _claims_to_be_replica(request: FetchRequest) -> bool:
    """Followers come with replication and its own authentication; a client must not pass for one
    (CVE-2018-1288).
    """
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0
