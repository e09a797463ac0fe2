"""The metastore's state machine: entries, revision, leases, and the recent changes that watchers
follow.

Pure: no clock, no I/O. `MemoryMetastore` and the simulator's hold one, `SqliteMetastore` keeps one
as the exact image of its file. Every transaction that writes takes one revision, which is the
version of every entry it touches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from broker.ports import Change, Condition, Delete, Entry, MetastoreFault, Put

OPERATIONS_MAX: Final = 128
"""Conditions plus writes of one transaction: etcd's default limit, so every store has it."""
HISTORY_CHANGES_MAX: Final = 10_000
"""Older changes are forgotten (compacted): a watcher that asks for them must read again."""


class StoreState:
    """One store. Times are the caller's monotonic milliseconds."""

    def __init__(self, entries: Iterable[Entry] = (), revision: int = 0) -> None:
        self.revision = revision
        self.compacted_revision = revision
        self._entries = {entry.key: entry for entry in entries}
        self._leased_keys: dict[int, set[str]] = {}
        self._lease_of: dict[str, int] = {}
        self._lease_deadlines_ms: dict[int, float] = {}
        self._lease_ttls_ms: dict[int, int] = {}
        self._lease_last = 0
        self._changes: deque[Change] = deque()

    def read(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def read_range(self, prefix: str) -> list[Entry]:
        """In key order."""
        return [self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)]

    def is_satisfied(self, conditions: Sequence[Condition]) -> bool:
        return all(self._version(condition.key) == condition.version for condition in conditions)

    def apply(self, writes: Sequence[Put | Delete]) -> int:
        """Carry out a transaction whose conditions hold. Returns the new revision."""
        self.revision += 1
        for write in writes:
            if isinstance(write, Put):
                self._put(write)
            else:
                self._delete(write.key)
        return self.revision

    def changes_after(self, prefix: str, version: int) -> list[Change]:
        """Raises MetastoreFault when some of them are forgotten."""
        if version < self.compacted_revision:
            msg = (
                f"changes after revision {version} are forgotten (kept: those after "
                f"{self.compacted_revision}): read {prefix!r} again"
            )
            raise MetastoreFault(msg)
        return [
            change
            for change in self._changes
            if change.entry.version > version and change.entry.key.startswith(prefix)
        ]

    def grant_lease(self, ttl_ms: int, now_ms: float) -> int:
        self._lease_last += 1
        self._lease_ttls_ms[self._lease_last] = ttl_ms
        self._lease_deadlines_ms[self._lease_last] = now_ms + ttl_ms
        self._leased_keys[self._lease_last] = set()
        return self._lease_last

    def is_lease_known(self, lease_id: int) -> bool:
        return lease_id in self._lease_deadlines_ms

    def keep_lease(self, lease_id: int, now_ms: float) -> bool:
        """False when it is gone."""
        if lease_id not in self._lease_deadlines_ms:
            return False
        self._lease_deadlines_ms[lease_id] = now_ms + self._lease_ttls_ms[lease_id]
        return True

    def forget_lease(self, lease_id: int) -> list[str]:
        """Drop the lease. Returns the keys that must be deleted with it, in order."""
        self._lease_deadlines_ms.pop(lease_id, None)
        self._lease_ttls_ms.pop(lease_id, None)
        return sorted(self._leased_keys.pop(lease_id, ()))

    def expired_leases(self, now_ms: float) -> list[int]:
        return [
            lease_id
            for lease_id, deadline_ms in self._lease_deadlines_ms.items()
            if deadline_ms <= now_ms
        ]

    def next_deadline_ms(self) -> float | None:
        """When the next lease expires."""
        return min(self._lease_deadlines_ms.values(), default=None)

    def _version(self, key: str) -> int:
        entry = self._entries.get(key)
        return 0 if entry is None else entry.version

    def _put(self, write: Put) -> None:
        entry = Entry(write.key, write.value, self.revision)
        self._entries[write.key] = entry
        self._bind_lease(write.key, write.lease_id)
        self._remember(Change(entry, is_deleted=False))

    def _delete(self, key: str) -> None:
        self._bind_lease(key, 0)
        if self._entries.pop(key, None) is not None:
            self._remember(Change(Entry(key, b"", self.revision), is_deleted=True))

    def _bind_lease(self, key: str, lease_id: int) -> None:
        previous = self._lease_of.pop(key, 0)
        if previous in self._leased_keys:
            self._leased_keys[previous].discard(key)
        if lease_id:
            self._lease_of[key] = lease_id
            self._leased_keys[lease_id].add(key)

    def _remember(self, change: Change) -> None:
        self._changes.append(change)
        while len(self._changes) > HISTORY_CHANGES_MAX:
            self.compacted_revision = self._changes.popleft().entry.version


def check_transaction(
    state: StoreState, conditions: Sequence[Condition], writes: Sequence[Put | Delete]
) -> None:
    """Raises MetastoreFault for a transaction that no store takes; nothing was changed."""
    if len(conditions) + len(writes) > OPERATIONS_MAX:
        count = len(conditions) + len(writes)
        msg = f"a transaction of {count} conditions and writes: at most {OPERATIONS_MAX}"
        raise MetastoreFault(msg)
    keys = [write.key for write in writes]
    if len(set(keys)) != len(keys):
        msg = f"a transaction writes a key twice: {sorted(keys)}; nothing was changed"
        raise MetastoreFault(msg)
    for write in writes:
        if isinstance(write, Put) and write.lease_id and not state.is_lease_known(write.lease_id):
            msg = f"lease {write.lease_id} is gone: {write.key} was not written"
            raise MetastoreFault(msg)
