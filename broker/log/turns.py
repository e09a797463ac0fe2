"""Letting others have the event loop between two steps of long work, without knowing the loop."""

from __future__ import annotations

from collections.abc import Generator


class OthersFirst:
    """Awaited, it lets everybody else have a turn of the loop, which the log knows nothing of."""

    def __await__(self) -> Generator[None]:
        yield
