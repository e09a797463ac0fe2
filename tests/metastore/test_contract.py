"""One contract for every metastore; a new implementation is a row of `STORES`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.metastore.memory import MemoryMetastore
from broker.metastore.sqlite import SqliteMetastore
from broker.metastore.state import HISTORY_CHANGES_MAX, OPERATIONS_MAX
from broker.ports import Change, Condition, Delete, Metastore, MetastoreFault, Put


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> int:
        return int(self.now_ms)


async def _open_memory(_directory: Path, clock: HandClock) -> Metastore:
    return MemoryMetastore(clock)


async def _open_sqlite(directory: Path, clock: HandClock) -> Metastore:
    return await SqliteMetastore.open(directory / "metastore.db", clock)


STORES = {"memory": _open_memory, "sqlite": _open_sqlite}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=sorted(STORES))
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock
) -> AsyncIterator[Metastore]:
    opened = await STORES[request.param](tmp_path, clock)
    yield opened
    await opened.close()


async def test_written_entry_is_read_with_the_revision_of_its_write(store: Metastore) -> None:
    revision = await store.transact([], [Put("a", b"1")])
    entry = await store.read("a")
    assert entry == ("a", b"1", revision)


async def test_absent_key_is_none(store: Metastore) -> None:
    assert await store.read("a") is None


async def test_range_has_only_the_prefix_in_key_order(store: Metastore) -> None:
    await store.transact([], [Put("t/b", b"2"), Put("t/a", b"1"), Put("u", b"3")])
    assert [entry.key for entry in await store.read_range("t/")] == ["t/a", "t/b"]


async def test_revision_rises_with_every_transaction(store: Metastore) -> None:
    first = await store.transact([], [Put("a", b"1")])
    second = await store.transact([], [Delete("a")])
    assert first is not None
    assert second == first + 1


async def test_condition_on_an_old_version_changes_nothing(store: Metastore) -> None:
    first = await store.transact([], [Put("a", b"1")])
    await store.transact([], [Put("a", b"2")])
    result = await store.transact([Condition("a", first or 0)], [Put("a", b"3"), Put("b", b"3")])
    assert result is None
    assert (await store.read("a") or pytest.fail("gone")).value == b"2"
    assert await store.read("b") is None


async def test_condition_zero_means_that_the_key_must_not_exist(store: Metastore) -> None:
    assert await store.transact([Condition("a", 0)], [Put("a", b"1")]) is not None
    assert await store.transact([Condition("a", 0)], [Put("a", b"2")]) is None


async def test_one_of_many_concurrent_creators_wins(store: Metastore) -> None:
    async with asyncio.TaskGroup() as group:
        tries = [
            group.create_task(store.transact([Condition("a", 0)], [Put("a", bytes([number]))]))
            for number in range(10)
        ]
    assert sum(attempt.result() is not None for attempt in tries) == 1


async def test_deleting_what_is_absent_is_fine(store: Metastore) -> None:
    assert await store.transact([], [Delete("a")]) is not None


async def test_oversized_transaction_is_a_fault_and_changes_nothing(store: Metastore) -> None:
    with pytest.raises(MetastoreFault, match="at most"):
        await store.transact([], [Put(f"k{index}", b"") for index in range(OPERATIONS_MAX + 1)])
    assert await store.read_range("k") == []


async def test_writing_a_key_twice_is_a_fault(store: Metastore) -> None:
    with pytest.raises(MetastoreFault, match="twice"):
        await store.transact([], [Put("a", b"1"), Delete("a")])


async def test_watch_sees_changes_of_its_prefix_in_order(store: Metastore) -> None:
    before = await store.transact([], [Put("t/a", b"0")])
    await store.transact([], [Put("t/a", b"1"), Put("u", b"")])
    watch = store.watch("t/", before or 0)
    assert await _next(watch) == (("t/a", b"1", 2), False)
    pending = asyncio.create_task(_next(watch))
    await asyncio.sleep(0)
    await store.transact([], [Delete("t/a")])
    assert await pending == (("t/a", b"", 3), True)


async def test_watch_of_forgotten_changes_is_a_fault(store: Metastore) -> None:
    keys = [f"k{index:03}" for index in range(OPERATIONS_MAX)]
    for _ in range(HISTORY_CHANGES_MAX // OPERATIONS_MAX + 2):
        await store.transact([], [Put(key, b"") for key in keys])
    with pytest.raises(MetastoreFault, match="read 'k' again"):
        await _next(store.watch("k", 0))


async def test_keys_of_an_expired_lease_are_gone(store: Metastore, clock: HandClock) -> None:
    lease_id = await store.grant_lease(100)
    await store.transact([], [Put("a", b"1", lease_id), Put("b", b"1")])
    clock.now_ms += 99
    assert await store.keep_lease(lease_id)
    clock.now_ms += 99
    assert await store.read("a") is not None
    clock.now_ms += 1
    assert await store.read("a") is None
    assert await store.read("b") is not None
    assert not await store.keep_lease(lease_id)


async def test_key_rewritten_without_its_lease_outlives_it(
    store: Metastore, clock: HandClock
) -> None:
    lease_id = await store.grant_lease(100)
    await store.transact([], [Put("a", b"1", lease_id)])
    await store.transact([], [Put("a", b"2")])
    clock.now_ms += 1_000
    assert await store.read("a") is not None


async def test_revoked_lease_takes_its_keys_and_watchers_see_it(store: Metastore) -> None:
    lease_id = await store.grant_lease(100_000)
    version = await store.transact([], [Put("a", b"1", lease_id)])
    await store.revoke_lease(lease_id)
    assert await store.read("a") is None
    assert (await _next(store.watch("a", version or 0))).is_deleted


async def test_write_under_a_lost_lease_is_a_fault(store: Metastore, clock: HandClock) -> None:
    lease_id = await store.grant_lease(100)
    clock.now_ms += 100
    with pytest.raises(MetastoreFault, match="lease"):
        await store.transact([], [Put("a", b"1", lease_id)])


async def _next(watch: AsyncIterator[Change]) -> Change:
    async with asyncio.timeout(5):
        return await anext(watch)
