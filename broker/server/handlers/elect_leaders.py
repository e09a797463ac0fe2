"""ElectLeaders (43): make the preferred, or any, replica of a partition its leader.

The only replica leads already, unless its log is offline; then there is no other to elect.

| partition | preferred (0)                  | unclean (1)                    |
|-----------|--------------------------------|--------------------------------|
| serving   | ELECTION_NOT_NEEDED            | ELECTION_NOT_NEEDED            |
| offline   | PREFERRED_LEADER_NOT_AVAILABLE | ELIGIBLE_LEADERS_NOT_AVAILABLE |
| unknown   | UNKNOWN_TOPIC_OR_PARTITION     | UNKNOWN_TOPIC_OR_PARTITION     |

Asked for all partitions, those where nothing is needed are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.encoded import EncodedBody, encode_sliced
from broker.server.outcome import count_errors
from broker.wire.api import ELECT_LEADERS
from broker.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

PARTITIONS_PER_STEP: Final = 200
NO_LEADER: Final = {
    0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    1: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
"""By election type: what an offline partition is answered with."""
_UNKNOWN_TEXT: Final = "there is no such partition"
_OFFLINE_TEXT: Final = "the only replica is offline: see the broker's log"
_NOT_NEEDED_TEXT: Final = "the only replica leads already"


async def handle_elect_leaders(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> EncodedBody:
    """An outcome for each partition asked for, once for each; of all partitions, only failures."""
    response = ElectLeadersResponse()
    if request.election_type in NO_LEADER:
        response.replica_election_results = await _elect(broker, request)
    else:
        response.error_code = ErrorCode.INVALID_REQUEST
    return await encode_sliced(
        ELECT_LEADERS,
        context.api_version,
        response,
        ["replica_election_results", "partition_result"],
        PARTITIONS_PER_STEP,
    )


async def _elect(broker: Broker, request: ElectLeadersRequest) -> list[ReplicaElectionResult]:
    is_all = request.topic_partitions is None
    results: list[ReplicaElectionResult] = []
    asked = 0
    for topic, indexes in _wanted(broker, request):
        outcomes = []
        for index in indexes:
            code, text = _outcome(broker, topic, index, request.election_type)
            if not is_all or code is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes.append(
                    PartitionResult(partition_id=index, error_code=code, error_message=text)
                )
            asked += 1
            if asked % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        if outcomes or not is_all:
            count_errors(broker, "ElectLeaders", [item.error_code for item in outcomes])
            results.append(ReplicaElectionResult(topic=topic, partition_result=outcomes))
    return results


def _wanted(broker: Broker, request: ElectLeadersRequest) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(topic.name, range(topic.partition_count)) for topic in broker.catalog.topics()]
    asked: dict[str, dict[int, None]] = {}
    for wanted in request.topic_partitions:
        asked.setdefault(wanted.topic, {}).update(dict.fromkeys(wanted.partitions))
    return asked.items()


def _outcome(broker: Broker, topic: str, index: int, election_type: int) -> tuple[ErrorCode, str]:
    partition = broker.partitions.get(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TEXT
    if partition.is_offline:
        return NO_LEADER[election_type], _OFFLINE_TEXT
    return ErrorCode.ELECTION_NOT_NEEDED, _NOT_NEEDED_TEXT
