"""From a shard's log to its state: first the newest value of each key, then what those values mean.

Replaying only the newest values gives the state that replaying everything would give, because a
record's key names exactly what it changes; so a log that was not cleaned for a while costs little
more than reading it.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordinators.group.records import from_log
from broker.coordinators.group.shard import GroupShard


class Replay:
    """`add` every entry of the log in order, then run `records_applied` to its end."""

    __slots__ = ("_newest", "shard")

    def __init__(self) -> None:
        self.shard = GroupShard()
        self._newest: dict[bytes, bytes] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """An entry without a key is nobody's; one without a value removes its key."""
        if key is None:
            return
        if value is None:
            self._newest.pop(key, None)
        else:
            self._newest[key] = value

    def records_applied(self) -> Iterator[int]:
        """Apply one by one, yielding the count so far. Raises MalformedMessage for a record that
        does not parse.
        """
        for count, (key, value) in enumerate(self._newest.items(), start=1):
            record = from_log(key, value)
            if record is not None:
                self.shard.apply(record)
            yield count
        self._newest.clear()
