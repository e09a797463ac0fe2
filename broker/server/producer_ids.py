"""Producer ids: unique for ever, given out from blocks that the metastore hands over (KIP-360 for
epochs).

A block is taken with one compare-and-set before its first id is used, so a restart wastes ids and
never repeats one. Epochs: whoever knows the present epoch of an id gets the next one; a repeated
request gets the same answer again; anybody else is fenced. Only ids whose epoch was raised since
the start are remembered, the newest `KNOWN_IDS_MAX`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.metastore import keys
from broker.metastore.keys import ProducerIdsValue
from broker.model import INT64_MAX
from broker.ports import Condition, Metastore, MetastoreFault, Put

BLOCK_SIZE: Final = 1_000
KNOWN_IDS_MAX: Final = 10_000
LAST_EPOCH: Final = 2**15 - 2
"""The highest epoch given out; the one above it is reserved for fencing."""
_ATTEMPTS_MAX: Final = 10


class ProducerIdentity(NamedTuple):
    """What a producer stamps its batches with."""

    producer_id: int
    epoch: int


class ProducerIds:
    """The source of one broker."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()
        self._epochs: OrderedDict[int, int] = OrderedDict()

    async def new_identity(self) -> ProducerIdentity:
        """An id that nobody ever had, epoch 0. Raises MetastoreFault."""
        async with self._lock:
            if self._next >= self._end:
                await self._take_block()
            self._next += 1
            return ProducerIdentity(self._next - 1, 0)

    async def next_epoch(self, producer_id: int, epoch: int) -> ProducerIdentity:
        """The identity that follows (producer_id, epoch).

        Raises Refusal (PRODUCER_FENCED), MetastoreFault.
        """
        present = self._epochs.get(producer_id, epoch)
        if present == epoch + 1:
            return ProducerIdentity(producer_id, present)
        if present != epoch or not await self._was_given(producer_id):
            raise Refusal(
                ErrorCode.PRODUCER_FENCED,
                f"producer {producer_id} has another epoch than {epoch}: it was replaced",
            )
        if epoch >= LAST_EPOCH:
            return await self.new_identity()
        self._epochs[producer_id] = epoch + 1
        self._epochs.move_to_end(producer_id)
        while len(self._epochs) > KNOWN_IDS_MAX:
            self._epochs.popitem(last=False)
        return ProducerIdentity(producer_id, epoch + 1)

    async def _was_given(self, producer_id: int) -> bool:
        if producer_id < self._end:
            return True
        entry = await self._metastore.read(keys.PRODUCER_IDS)
        return (
            entry is not None
            and producer_id < ProducerIdsValue.decode(entry.value).next_producer_id
        )

    async def _take_block(self) -> None:
        for _ in range(_ATTEMPTS_MAX):
            entry = await self._metastore.read(keys.PRODUCER_IDS)
            first = 0 if entry is None else ProducerIdsValue.decode(entry.value).next_producer_id
            assert first <= INT64_MAX - BLOCK_SIZE, "producer ids are used up"
            value = ProducerIdsValue(first + BLOCK_SIZE)
            version = 0 if entry is None else entry.version
            condition = Condition(keys.PRODUCER_IDS, version)
            if await self._metastore.transact(
                [condition], [Put(keys.PRODUCER_IDS, value.encode())]
            ):
                self._next, self._end = first, first + BLOCK_SIZE
                return
        raise MetastoreFault("producer ids: other brokers took every block that was tried for")
