"""Questions about many partitions or groups at once: each gets its own outcome, and only those
whose leader or coordinator moved are asked again.

Not here: what is asked. An outcome is a value or the BrokerRefusal that says why there is none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, TimedOut
from broker.errors import ErrorCode
from broker.model import TopicPartition

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

PASSES_BY_ITSELF: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
    }
)
"""The question went to a broker that is not, or not yet, the one to ask. UNKNOWN_TOPIC_OR_PARTITION
is not among them: an administrator asks about what exists, and wants to hear at once that it does
not.
"""

SHARE_OF_TIMEOUT: Final = 0.8
"""A caller whose own time ends with the request timeout still gets the items that are done."""


async def settle(
    cluster: Cluster,
    items: Iterable[Item],
    ask: Callable[[Sequence[Item]], Awaitable[Mapping[Item, Outcome | BrokerRefusal]]],
    *,
    what: str,
) -> dict[Item, Outcome | BrokerRefusal]:
    """Per item, in the order given, what the last `ask` said of it. An item without an answer is
    refused with UNKNOWN_SERVER_ERROR.

    Raises ClientError when a broker could not be asked at all.
    """
    order = list(dict.fromkeys(items))
    pending = order
    outcome: dict[Item, Outcome | BrokerRefusal] = {}

    async def attempt() -> None:
        nonlocal pending
        answers = await ask(pending)
        for item in pending:
            outcome[item] = answers[item] if item in answers else _unanswered(item)
        pending = [item for item in pending if passes_by_itself(outcome[item])]
        for item in pending:
            failure = outcome[item]
            assert isinstance(failure, BrokerRefusal), "only refusals pass by themselves"
            failure.is_retriable = True
            raise failure

    if not order:
        return {}
    try:
        allowed_ms = int(cluster.settings.request_timeout_ms * SHARE_OF_TIMEOUT)
        await cluster.call(attempt, what=what, timeout_ms=allowed_ms)
    except TimedOut:
        if len(outcome) < len(order):
            raise
    return {item: outcome[item] for item in order}


def passes_by_itself(outcome: object) -> bool:
    """Whether `outcome` is a refusal that a repeated question may not get."""
    return isinstance(outcome, BrokerRefusal) and outcome.code in PASSES_BY_ITSELF


def _unanswered(item: object) -> BrokerRefusal:
    return BrokerRefusal(
        ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer leaves it out", subject=str(item)
    )


async def by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[int, dict[str, list[int]]], dict[TopicPartition, BrokerRefusal]]:
    """(leader -> topic -> partitions, those without a leader and why). One attempt."""
    found: dict[int, dict[str, list[int]]] = {}
    refused: dict[TopicPartition, BrokerRefusal] = {}
    for where in partitions:
        try:
            leader = cluster.known_leader(*where)
            if leader is None:
                leader, _ = await cluster.leader(*where)
        except BrokerRefusal as error:
            refused[where] = error
            continue
        found.setdefault(leader, {}).setdefault(where.topic, []).append(where.partition)
    return found, refused


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic -> its partitions among these."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
