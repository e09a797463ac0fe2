"""ElectLeaders (43): elect the preferred, or any, replica as leader (KIP-460). 1 has the kind of
election, 2 is flexible.
"""

from __future__ import annotations

from broker.wire.schema import INT32, array, int8, int16, int32, message, string, struct


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@message(api_key=43, direction="request", versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Election type 0 wants the preferred replica, 1 any live one; null topics mean all
    partitions.
    """

    election_type: int = int8(versions="1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(60_000)


@struct
class PartitionResult:
    """Elected, or why not."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, nullable="0+")


@struct
class ReplicaElectionResult:
    """Outcomes of one topic."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(api_key=43, direction="response", versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """The outcome per partition asked for; asked for all, those where something happened."""

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="1+", ignorable=True)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
