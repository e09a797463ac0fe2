"""Whether a topic may be created or grown as asked, and with how many partitions. Pure.

Refusals and numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.server.names import INTERNAL_TOPICS, colliding_name, name_problem

DEFAULT_COUNT = -1


class ClusterFacts(NamedTuple):
    """What the rules look at. `partition_count` counts every partition there is; each keeps a file
    open, of which `partition_file_count_max` may be.
    """

    node_id: int
    topic_names: Collection[str]
    partition_count: int
    partition_count_max: int
    partition_file_count_max: int
    default_partition_count: int


class WantedTopic(NamedTuple):
    """A topic as asked for. `assignments` maps partition index to broker ids.

    Empty means the broker places them.
    """

    name: str
    partition_count: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Mapping[int, Sequence[int]] = {}
    is_internal: bool = False


def decide_create(wanted: WantedTopic, facts: ClusterFacts) -> int:
    """The number of partitions of the new topic. Raises Refusal."""
    check_name(wanted, facts.topic_names)
    if wanted.assignments:
        count = _assigned_count(wanted, facts.node_id)
    else:
        check_replication_factor(wanted.replication_factor)
        count = wanted.partition_count
        if count == DEFAULT_COUNT:
            count = facts.default_partition_count
    if count < 1:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"a topic has at least 1 partition (or -1 for the default), found {count}",
        )
    if not wanted.is_internal:
        _check_cap(count, facts)
    return count


def decide_grow(
    name: str,
    present_count: int,
    wanted_count: int,
    assignments: Sequence[Sequence[int]] | None,
    facts: ClusterFacts,
) -> None:
    """Whether topic `name` may grow to `wanted_count`. Raises Refusal."""
    if wanted_count <= present_count:
        relation = "has" if wanted_count == present_count else "already has more:"
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"partitions can only be added: topic {name} {relation} {present_count}, "
            f"asked for {wanted_count}",
        )
    added = wanted_count - present_count
    if assignments is not None:
        if len(assignments) != added:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are added, but {len(assignments)} assignments are given",
            )
        for offset, brokers in enumerate(assignments):
            _check_replicas(present_count + offset, brokers, facts.node_id)
    _check_cap(added, facts)


def check_name(wanted: WantedTopic, topic_names: Collection[str]) -> None:
    """The name's form, reservation, uniqueness and collisions. Raises Refusal."""
    problem = name_problem(wanted.name)
    if problem is None and wanted.name in INTERNAL_TOPICS and not wanted.is_internal:
        problem = f"{wanted.name} is an internal topic: the broker creates it when it is needed"
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if wanted.name in topic_names:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {wanted.name} already exists")
    other = colliding_name(wanted.name, topic_names)
    if other is not None:
        raise Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {wanted.name} would collide with {other}: '.' and '_' are the same in metrics",
        )


def check_replication_factor(factor: int) -> None:
    """Raises Refusal for anything but 1 and -1 (the default, 1)."""
    if factor not in (1, DEFAULT_COUNT):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the cluster has 1 broker, so a partition has 1 replica (or -1 for the default), "
            f"found {factor}",
        )


def _assigned_count(wanted: WantedTopic, node_id: int) -> int:
    if wanted.partition_count != DEFAULT_COUNT or wanted.replication_factor != DEFAULT_COUNT:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "with manual assignments the numbers of partitions and replicas follow from them: "
            f"both must be -1, found {wanted.partition_count} and {wanted.replication_factor}",
        )
    count = len(wanted.assignments)
    if set(wanted.assignments) != set(range(count)):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"assignments must cover partitions 0 to {count - 1} without a gap, "
            f"found {sorted(wanted.assignments)[:20]}",
        )
    for index, brokers in wanted.assignments.items():
        _check_replicas(index, brokers, node_id)
    return count


def _check_replicas(index: int, brokers: Sequence[int], node_id: int) -> None:
    if list(brokers) != [node_id]:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partition {index} can only be placed on broker {node_id}, the one there is, "
            f"found {list(brokers)[:20]}",
        )


def _check_cap(added: int, facts: ClusterFacts) -> None:
    room = facts.partition_count_max - facts.partition_count
    if added > room:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"{added} more partitions are too many: the node has {facts.partition_count} and may "
            f"have {facts.partition_count_max} (hermes.partitions.max)",
        )
    if facts.partition_count + added > facts.partition_file_count_max:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"{added} more partitions are too many: the node has {facts.partition_count}, and the "
            f"limit on open files lets it have {facts.partition_file_count_max}: raise it "
            "(ulimit -n) and restart the broker",
        )
