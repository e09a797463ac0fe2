"""Whether the gateway accepts messages, and its metrics as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.gateway.ledger import Ledger
from broker.gateway.sender import Sender
from broker.metrics import GatewayMetrics
from broker.runtime.exposition import CONTENT_TYPE, head_lines, stored_lines
from broker.runtime.process_stats import cpu_seconds, resident_bytes


class Health:
    """`reasons` say why messages are not accepted; none of them: they are."""

    content_type: Final = CONTENT_TYPE

    def __init__(self, metrics: GatewayMetrics) -> None:
        self.reasons: list[str] = ["the gateway starts"]
        self.ledger: Ledger | None = None
        self.sender: Sender | None = None
        self._metrics = metrics

    def exposition(self) -> bytes:
        """Every metric."""
        metrics = self._metrics
        metrics.ready.set(0 if self.reasons else 1)
        metrics.process_cpu_seconds_total.labels().value = cpu_seconds()
        metrics.process_resident_memory_bytes.set(resident_bytes())
        if self.ledger is not None:
            metrics.ids.set(len(self.ledger.index))
            metrics.ids_unrecorded.set(self.ledger.unrecorded)
        return "".join(self._texts()).encode()

    def _texts(self) -> Iterator[str]:
        for metric in self._metrics.all():
            yield head_lines(metric.spec)
            yield from stored_lines(metric)
