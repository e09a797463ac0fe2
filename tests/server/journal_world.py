"""A simulated broker with a journal, and one record at a time for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.errors import ErrorCode
from broker.server.partition import Partition
from tests.server.group_world import TOPIC, Cluster, simulate

RECORDS = [(b"k", b"v" * 50)]
SETTINGS: dict[str, object] = {"hermes.durability": "fsync"}
ENOUGH = 10
"""Rounds that begin the journal of a simulated broker, and then some in it."""


def rounds(cluster: Cluster, way: str) -> float:
    return cluster.broker.metrics.sync_rounds_total.labels(way=way).value


def files(cluster: Cluster, way: str) -> float:
    return cluster.broker.metrics.synced_files_total.labels(way=way).value


def partition_of(cluster: Cluster, index: int) -> Partition:
    found = cluster.broker.partitions.get(TOPIC, index)
    assert found is not None
    return found


def begin_append(cluster: Cluster, index: int = 0) -> list[ErrorCode]:
    """One record; what it is answered."""
    answers: list[ErrorCode] = []
    partition = partition_of(cluster, index)
    partition.append_records(RECORDS, answers.append)
    partition.flush()
    return answers


async def append(cluster: Cluster, count: int, index: int = 0) -> None:
    """One record a round, each acknowledged."""
    for _ in range(count):
        answers = begin_append(cluster, index)
        await cluster.until(lambda answers=answers: bool(answers))  # type: ignore[misc]
        assert answers == [ErrorCode.NONE]


def simulate_with_journal(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """`scenario` on a broker that has a journal."""

    async def begun(cluster: Cluster) -> None:
        await cluster.prepare()
        await append(cluster, ENOUGH)
        assert rounds(cluster, "journal") > 0
        await scenario(cluster)

    simulate(begun, SETTINGS)
