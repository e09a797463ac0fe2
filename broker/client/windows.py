"""What a topic with a delivery window holds: records that consumers see, that are not due yet, and
that are expired but still stored.

Asked twice: as a consumer, and as Kafka's debugging consumer, who is told of the whole log. Only
topics whose settings name a window are asked about; Apache Kafka has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.client.cluster import Cluster
from broker.client.offsets import EARLIEST, LATEST, ask_offsets
from broker.model import TopicPartition

DELAY_SETTING: Final = "delivery.delay.ms"
TTL_SETTING: Final = "delivery.ttl.ms"


class WindowCounts(NamedTuple):
    """Records of one partition."""

    expired: int
    visible: int
    delayed: int


def has_window(values: Mapping[str, str | None]) -> bool:
    """Whether a topic with these settings shows its consumers less than it holds."""
    delay, ttl = values.get(DELAY_SETTING), values.get(TTL_SETTING)
    return delay not in (None, "", "0") or ttl not in (None, "", "-1")


async def count_window(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, WindowCounts]:
    """Per partition the three counts; those that are refused are left out.

    Raises ConnectionLost, TimedOut.
    """
    wanted = list(partitions)

    async def ask(timestamp: int, *, is_whole_log: bool) -> dict[TopicPartition, int]:
        found, _refused = await cluster.call(
            lambda: ask_offsets(
                cluster, dict.fromkeys(wanted, timestamp), is_whole_log=is_whole_log
            ),
            what="find offsets",
        )
        return {where: row.offset for where, row in found.items()}

    # What only rises is asked in the order in which it may not be crossed.
    starts = await ask(EARLIEST, is_whole_log=True)
    firsts = await ask(EARLIEST, is_whole_log=False)
    visible_ends = await ask(LATEST, is_whole_log=False)
    ends = await ask(LATEST, is_whole_log=True)
    return {
        where: WindowCounts(
            max(0, firsts[where] - starts[where]),
            max(0, visible_ends[where] - firsts[where]),
            max(0, ends[where] - visible_ends[where]),
        )
        for where in wanted
        if all(where in found for found in (starts, firsts, visible_ends, ends))
    }
