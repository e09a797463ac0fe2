"""Batches that were refused because their topic was gone, or not there yet, for when a topic of
that name comes.

Its producers are new to it, and a producer that is new may begin at any sequence: what it sent
behind the refused batch would be stored first. So the new partition is told what was refused, as
if it had refused it itself. Apache Kafka tells incarnations apart by topic ids in Produce, from
version 13 on; older clients name topics, and there a later batch may overtake.
"""

from __future__ import annotations

from typing import Final

from broker.log.producers import REFUSED_MS_MAX, ProducerStates, identity_of
from broker.ports import Buffer
from broker.server.names import name_problem

FORSAKEN_MAX: Final = 1_000
"""Producers and partitions remembered; beyond it the oldest go."""


class Forsaken:
    """By topic name, partition and producer: the first batch of the newest epoch, and when."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, int, int], tuple[int, int, int]] = {}

    def on_refused(self, topic: str, index: int, batch: Buffer | None, now_wall_ms: int) -> None:
        """There is no such partition now. A name that no topic may have is not remembered: it may
        be long, and nobody comes for it.
        """
        found = None if batch is None else identity_of(batch)
        if found is not None and name_problem(topic) is None:
            self.note(topic, index, found, now_wall_ms)

    def note(self, topic: str, index: int, batch: tuple[int, int, int], now_wall_ms: int) -> None:
        """(producer id, epoch, first sequence) was refused. The first of an epoch counts."""
        producer_id, epoch, sequence = batch
        key = topic, index, producer_id
        known = self._refused.get(key)
        if known is not None and known[0] >= epoch and now_wall_ms - known[2] <= REFUSED_MS_MAX:
            return
        self._refused.pop(key, None)
        if len(self._refused) >= FORSAKEN_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = epoch, sequence, now_wall_ms

    def hand_over(self, topic: str, index: int, producers: ProducerStates) -> None:
        """The partition is there now."""
        for key in [key for key in self._refused if key[:2] == (topic, index)]:
            epoch, sequence, refused_ms = self._refused.pop(key)
            producers.note_refused(key[2], epoch, sequence, refused_ms)
