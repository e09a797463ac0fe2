"""What the clients of one run asked and were told, in order: the only thing that the checker sees.

One JSON object a line. `kind` is invoke, ok, fail (it certainly did not happen) or info (nobody
knows: a time-out, a lost connection); an invoke and its outcome share `id`. The other fields depend
on `operation`:

| operation | fields                                                                        |
|-----------|-------------------------------------------------------------------------------|
| send      | producer, is_idempotent, topic, partition, value, sequence; ok: offset        |
| poll      | reader, topic, partition, position; ok: records, high_watermark (or null)     |
| commit    | group, topic, partition, offset                                               |
| committed | group, topic, partition; ok: offset (-1: none)                                |
| trim      | topic, partition, offset (-1: all there is); ok: start, topic, partition       |
| watch     | reader, topic, partition, position; ok: records, stamps, visible_end, asked_s, |
|           | incarnation (of the broker; null when it changed meanwhile)                   |
| window    | topic, partition, delay_ms, ttl_ms: the delivery window from now on           |
| put       | topic, partition, key, value (null deletes the key); ok: offset               |
| follow    | reader, topic, partition, position; ok: entries, next_position,               |
|           | high_watermark, asked_s                                                       |
| keys      | topic, partition; ok: entries (all there is), lookups ([timestamp, offset])   |
| clock     | skew_ms: the broker's wall clock from now on                                  |
| reset     | group, topic, partition: its next commits may be lower                        |
| durable   | topic: with `durability=fsync` from its creation on                            |
| power cut | none: every process is gone, every disk lost what was not synced              |
| final     | topic, partition; ok: start, end, records (all there is), stamps, may_expire  |

`records` is [[offset, value], …], `entries` [[offset, timestamp, key, value], …]; `stamps` are
their timestamps in ms since the run's start. `topic` is the name and the incarnation of a topic
("orders/1"): a recreated topic is another one. `reader` is one uninterrupted run of one consumer
over one partition: a seek or a new assignment makes another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TextIO

Event = dict[str, Any]
INVOKE: Final = "invoke"
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"


class History:
    """The events of one run. Times are virtual seconds."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._next_id = 0

    def invoke(self, time_s: float, operation: str, **fields: Any) -> int:
        """Returns the id for `end`."""
        self._next_id += 1
        self._add(time_s, INVOKE, self._next_id, operation, fields)
        return self._next_id

    def end(self, time_s: float, identity: int, kind: str, operation: str, **fields: Any) -> None:
        """The outcome of `identity`."""
        self._add(time_s, kind, identity, operation, fields)

    def record(self, time_s: float, operation: str, **fields: Any) -> None:
        """An operation whose invocation does not matter, done."""
        self._next_id += 1
        self._add(time_s, OK, self._next_id, operation, fields)

    def now(self) -> int:
        """A moment for `recall`."""
        return len(self.events)

    def recall(self, moment: int, time_s: float, operation: str, **fields: Any) -> None:
        """An operation that began at `moment` and is heard of only now, with its outcome."""
        identity = self.invoke(time_s, operation, **fields)
        self.events.insert(moment, self.events.pop())
        self._add(time_s, OK, identity, operation, fields)

    def write(self, target: TextIO) -> None:
        """As JSON lines."""
        for event in self.events:
            target.write(json.dumps(event, separators=(",", ":")) + "\n")

    def _add(self, time_s: float, kind: str, identity: int, operation: str, fields: Event) -> None:
        head = {"time": round(time_s, 6), "id": identity, "operation": operation, "kind": kind}
        self.events.append({**head, **fields})


def read_history(source: TextIO) -> Iterator[Event]:
    """The events of a file that `History.write` wrote."""
    for line in source:
        yield json.loads(line)
