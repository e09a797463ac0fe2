"""Reading a shard's partition back into memory, in slices that leave the loop to others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.coordinators.group.replay import Replay
from broker.coordinators.group.shard import GroupShard

if TYPE_CHECKING:
    from broker.server.partition import Partition

READ_BYTES: Final = 256 * 1024
"""Read from the log at a time."""
SLICE_BYTES: Final = 32 * 1024
"""Replayed before the loop gets its turn: some 250 small batches, below 2 ms."""
SLICE_RECORDS: Final = 200
"""Records decoded before the loop gets its turn."""


async def load_shard(partition: Partition) -> GroupShard:
    """The state that the partition's log holds, up to its end as of now.

    Raises DiskFault, Refusal (damage) and MalformedMessage (records that are not ours).
    """
    replay = Replay()
    log = partition.log
    offset, end_offset = log.log_start_offset, log.written_end_offset
    while offset < end_offset:
        result = partition.read(offset, READ_BYTES, end_offset, at_least_one=True)
        if result is None:
            result = await partition.read_cold(offset, READ_BYTES, end_offset, at_least_one=True)
        position = 0
        while position < len(result.records):
            position = replay.add_batches(result.records, position, SLICE_BYTES)
            await asyncio.sleep(0)
        if result.next_offset <= offset:
            break  # the rest was compacted away
        offset = result.next_offset
    for count in replay.records_applied():
        if count % SLICE_RECORDS == 0:
            await asyncio.sleep(0)
    return replay.shard
