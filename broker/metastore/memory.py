"""A metastore in memory, for tests and the simulator. It forgets everything with its process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from broker.metastore.state import StoreState, check_transaction
from broker.ports import Change, Clock, Condition, Delete, Entry, Put
from broker.runtime.clock import SystemClock


class MemoryMetastore:
    """Implements `ports.Metastore`. `state` may outlive it: a later store over the same state sees
    every write.
    """

    def __init__(self, clock: Clock | None = None, state: StoreState | None = None) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._state = state if state is not None else StoreState()
        self._changed = asyncio.Event()

    async def read(self, key: str) -> Entry | None:
        self._expire_leases()
        return self._state.read(key)

    async def read_range(self, prefix: str) -> list[Entry]:
        self._expire_leases()
        return self._state.read_range(prefix)

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]
    ) -> int | None:
        self._expire_leases()
        check_transaction(self._state, conditions, writes)
        if not self._state.is_satisfied(conditions):
            return None
        return self.apply(writes)

    async def watch(self, prefix: str, after_version: int) -> AsyncIterator[Change]:
        version = after_version
        while True:
            self._expire_leases()
            changed = self._changed
            for change in self._state.changes_after(prefix, version):
                version = change.entry.version
                yield change
            await self._wait_for(changed)

    async def grant_lease(self, ttl_ms: int) -> int:
        return self._state.grant_lease(ttl_ms, self._clock.monotonic_ms())

    async def keep_lease(self, lease_id: int) -> bool:
        self._expire_leases()
        return self._state.keep_lease(lease_id, self._clock.monotonic_ms())

    async def revoke_lease(self, lease_id: int) -> None:
        self._delete(self._state.forget_lease(lease_id))

    async def close(self) -> None:
        """Nothing to release."""

    def apply(self, writes: Sequence[Put | Delete]) -> int:
        """Writes whose conditions hold; wakes the watchers. Returns the new revision."""
        revision = self._state.apply(writes)
        self._changed.set()
        self._changed = asyncio.Event()
        return revision

    def _delete(self, keys: Sequence[str]) -> None:
        if keys:
            self.apply([Delete(key) for key in keys])

    def _expire_leases(self) -> None:
        for lease_id in self._state.expired_leases(self._clock.monotonic_ms()):
            self._delete(self._state.forget_lease(lease_id))

    async def _wait_for(self, changed: asyncio.Event) -> None:
        deadline_ms = self._state.next_deadline_ms()
        timeout = (
            None
            if deadline_ms is None
            else max(0.0, deadline_ms - self._clock.monotonic_ms()) / 1000
        )
        try:
            async with asyncio.timeout(timeout):
                await changed.wait()
        except TimeoutError:
            return  # a lease ran out: its deletions come with the next pass
