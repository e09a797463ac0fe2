"""The shell around the group coordinators: shards, their logs, timers and replies."""

from broker.server.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
