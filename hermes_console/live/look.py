"""placeholder"""

from __future__ import annotations

from hermes_console.live.observation import ClusterObserved


class LookFailed(Exception):
    """The cluster could not be looked at; the message says what was tried and what came back."""


class ClusterLook:
    def __init__(self, bootstrap_address: str, metrics_address: str) -> None:
        pass

    def look(self) -> ClusterObserved:
        raise LookFailed("not yet")

    def close(self) -> None:
        pass
