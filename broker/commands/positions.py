"""Where a person's "start, end, 42, -5, @TIME" is in each partition."""

from __future__ import annotations

from collections.abc import Mapping

from broker.client import admin_groups
from broker.commands.context import Context
from broker.commands.values import Start
from broker.model import TopicPartition


async def resolve(
    context: Context, start: Start, bounds: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Per partition of `bounds` (first offset, end) the offset that is meant, kept within them; the
    end where nothing is as young as the time asked for.
    """
    if start.kind == "time":
        moment = start.time_ms(context.now_ms())
        found = await admin_groups.offsets_at(context.cluster, dict.fromkeys(bounds, moment))
        return {
            where: found[where].offset if found[where].offset >= 0 else end
            for where, (_, end) in bounds.items()
        }
    return {where: place(start, first, end) for where, (first, end) in bounds.items()}


def place(start: Start, first: int, end: int) -> int:
    """The offset for every kind but "time"."""
    if start.kind == "start":
        return first
    if start.kind == "end":
        return end
    if start.kind == "last":
        return max(first, end - start.number)
    return min(max(first, start.number), end)
