"""Stored batches of a topic, read over a cluster's client: for pages and for searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.client.batches import FetchedBatches, fetch_batches
from broker.client.blocking import BlockingClient, BrokerRefusal, TopicPartition
from broker.client.cluster import Cluster as ClientCluster

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
Fetch = Callable[[Mapping[int, int], int], Mapping[int, FetchedBatches | BrokerRefusal]]
"""(partition → offset, bytes per partition) → partition → what is stored from there on."""


def fetch_from(client: BlockingClient, topic: str, *, purpose: str = "browse") -> Fetch:
    """Reads stored batches of `topic` over `client`. Retriable refusals are tried again."""

    def fetch(
        positions: Mapping[int, int], partition_bytes: int
    ) -> Mapping[int, FetchedBatches | BrokerRefusal]:
        wanted = {TopicPartition(topic, number): offset for number, offset in positions.items()}
        total_bytes = min(ANSWER_BYTES_MAX, partition_bytes * len(wanted))

        async def attempt(cluster: ClientCluster) -> dict[int, FetchedBatches | BrokerRefusal]:
            found = await fetch_batches(
                cluster,
                wanted,
                partition_bytes=partition_bytes,
                total_bytes=total_bytes,
                purpose=purpose,
            )
            for answer in found.values():
                if isinstance(answer, BrokerRefusal) and answer.is_retriable:
                    raise answer
            return {where.partition: answer for where, answer in found.items()}

        return client.run(
            lambda cluster: cluster.call(lambda: attempt(cluster), what=f"read {topic}")
        )

    return fetch
