"""One client connection."""

from __future__ import annotations


class Connection:
    """See the module that fills this in."""

    client_host: str

    def close(self, reason: str) -> None:
        """Log `reason`, count it, close."""
        raise NotImplementedError
