"""Who writes the keys of a compacted topic again and again, over every loss of power, and reads on
each new connection what is left of them: the newest acknowledged value of a key, or a later one.
"""

from __future__ import annotations

from typing import Final

from broker.errors import RETRIABLE, ErrorCode
from broker.simulator.compacted_rules import newest_of_every_key_is_kept
from broker.simulator.history import INFO, OK
from broker.simulator.keeping import entries_from
from tests.faults.power_clients import (
    EARLIEST,
    LATEST,
    Customer,
    Ledger,
    list_offset,
)
from tests.support.wire_client import WireClient

TOPIC: Final = "keyed"
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "2000",
}
"""A few batches fill a segment, and every closed one is due."""
KEYS: Final = 200
"""Some are written again and again; the newest values of others were cleaned long ago."""
RECORDS_MAX: Final = 50


class PowerKeeper(Customer):
    """One batch at a time, so that a later one has a higher offset."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger, "keeper")
        self._number = 0
        self._open: list[int] = []

    def lost(self) -> None:
        self._end(INFO)

    def connected(self, client: WireClient) -> None:
        self.read(client)
        for evidence in newest_of_every_key_is_kept(self.ledger.events()):
            self.ledger.find(f"newest of every key is kept: {evidence}")

    def step(self, client: WireClient) -> None:
        records: list[tuple[bytes | None, bytes | None]] = []
        for _ in range(self.random.randint(1, RECORDS_MAX)):
            key, value = f"key-{int(self.random.random() ** 3 * KEYS)}", str(self._number)
            self._number += 1
            records.append((key.encode(), value.encode()))
            place = {"topic": TOPIC, "partition": 0}
            self._open.append(self.ledger.invoke("put", key=key, value=value, **place))
        answer = client.produce(TOPIC, records)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self.done("values acknowledged", len(records))
            self._end(OK, answer.base_offset)
        elif code not in RETRIABLE:
            self.ledger.find(f"{self.name}: a valid batch is refused: {code.name}")
        self._end(INFO)

    def read(self, client: WireClient) -> None:
        """What the topic holds, into the history. Raises ConnectionError when it does not tell."""
        position = list_offset(client, TOPIC, 0, EARLIEST)
        end = list_offset(client, TOPIC, 0, LATEST)
        if min(position, end) < 0:
            text = f"{TOPIC} does not tell its offsets"
            raise ConnectionError(text)
        entries = []
        while position < end:
            data = client.fetch(TOPIC, position)
            found, following = entries_from(data, position)
            if data.error_code or following == position:
                text = f"{TOPIC} at {position}: {ErrorCode(data.error_code).name}"
                raise ConnectionError(text)
            entries += found
            position = following
        self.ledger.record("keys", topic=TOPIC, partition=0, entries=entries, lookups=[])

    def _end(self, kind: str, base_offset: int | None = None) -> None:
        for delta, identity in enumerate(self._open):
            offset = {} if base_offset is None else {"offset": base_offset + delta}
            self.ledger.end(identity, kind, "put", **offset)
        self._open.clear()
