"""How long a peer owes the same thing, in time during which the broker did its part.

Looked at once a sweep, and a look counts for one interval of sweeps however late it comes: a broker
that was stopped, or a loop that is late, judges nobody by its own delay. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.server.limits import SWEEP_INTERVAL_MS


class Owed(NamedTuple):
    """What the peer owes, and a number that is another one when it has come further."""

    what: str
    progress: float = 0


CLOSE: Final = "take the last answers"
READ: Final = "read answers"
FRAME: Final = "end a request"
MEMORY: Final = "nothing: its request waits for memory"
NOTHING: Final = "nothing: the broker owes an answer"
REQUEST: Final = "a request"


class Patience:
    """One connection's."""

    __slots__ = ("_owed", "_waited_ms")

    def __init__(self) -> None:
        self._owed = Owed(NOTHING)
        self._waited_ms = 0

    def on_look(self, owed: Owed) -> int:
        """For how many ms at least the peer has owed just this."""
        if owed == self._owed:
            self._waited_ms += SWEEP_INTERVAL_MS
        else:
            self._owed = owed
            self._waited_ms = 0
        return self._waited_ms
