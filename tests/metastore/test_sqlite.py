"""What only the file-backed metastore promises: durability, one owner, and clear sentences."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from broker.metastore.sqlite import RESERVE_BYTES, SqliteMetastore
from broker.ports import Condition, Delete, MetastoreFault, Put


async def test_entries_and_revision_survive_a_restart(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    version = await store.transact([], [Put("a", b"\x00\xff")])
    await store.close()
    again = await SqliteMetastore.open(tmp_path / "m.db")
    assert await again.read("a") == ("a", b"\x00\xff", version)
    assert await again.transact([Condition("a", version or 0)], [Put("a", b"2")]) == 2
    await again.close()


async def test_entries_under_a_lease_are_gone_after_a_restart(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    await store.transact([], [Put("a", b"1", await store.grant_lease(1_000_000))])
    await store.close()
    again = await SqliteMetastore.open(tmp_path / "m.db")
    assert await again.read("a") is None
    await again.close()


async def test_commits_are_synced(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.close()


async def test_second_owner_is_told_who_has_the_file(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    with pytest.raises(MetastoreFault, match="in use by another process"):
        await SqliteMetastore.open(tmp_path / "m.db")
    await store.close()


@pytest.mark.parametrize(
    "content", [b"not a database, just text" * 100, b"SQLite format 3\x00" * 99]
)
async def test_damaged_file_gives_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.db").write_bytes(content)
    with pytest.raises(MetastoreFault, match="damaged"):
        await SqliteMetastore.open(tmp_path / "m.db")
    assert (tmp_path / "m.db").read_bytes() == content


async def test_damaged_page_is_found_at_start(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    for index in range(20):
        await store.transact([], [Put(f"key-{index}", b"x" * 1_000)])
    await store.close()
    content = bytearray((tmp_path / "m.db").read_bytes())
    content[4096 * 3 : 4096 * 3 + 400] = b"\xa5" * 400
    (tmp_path / "m.db").write_bytes(content)
    with pytest.raises(MetastoreFault, match="damaged"):
        await SqliteMetastore.open(tmp_path / "m.db")


async def test_newer_format_is_refused(tmp_path: Path) -> None:
    await (await SqliteMetastore.open(tmp_path / "m.db")).close()
    with sqlite3.connect(tmp_path / "m.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(MetastoreFault, match="format 99"):
        await SqliteMetastore.open(tmp_path / "m.db")


async def test_file_of_another_application_is_refused_and_kept(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "m.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(MetastoreFault, match="another application"):
        await SqliteMetastore.open(tmp_path / "m.db")


async def test_missing_directory_gives_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MetastoreFault, match="cannot be opened"):
        await SqliteMetastore.open(tmp_path / "absent" / "m.db")


async def test_cancelled_write_still_reaches_file_and_image_alike(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    write = asyncio.create_task(store.transact([], [Put("a", b"1")]))
    await asyncio.sleep(0)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert await store.transact([], [Put("b", b"1")]) == 2
    assert await store.read("a") == ("a", b"1", 1)
    await store.close()


async def test_refused_write_changes_nothing_and_the_store_goes_on(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    await store.transact([], [Put("a", b"1")])
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(MetastoreFault, match=r"disk is full.*Nothing was changed"):
        await store.transact([], [Put("big", bytes(2 * RESERVE_BYTES))])
    assert await store.read("big") is None
    assert await store.transact([], [Put("a", b"2")]) == 2
    await store.close()


def sizes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in directory.iterdir()}


async def test_changes_need_no_more_room_than_the_file_has_from_the_start(tmp_path: Path) -> None:
    for _ in range(2):
        store = await SqliteMetastore.open(tmp_path / "m.db")
        before = sizes(tmp_path)
        for number in range(300):
            await store.transact([], [Put(f"topic-{number}", bytes(500))])
            await store.transact([], [Put(f"topic-{number}", bytes(600))])
        for number in range(300):
            await store.transact([], [Delete(f"topic-{number}")])
        assert sizes(tmp_path) == before
        await store.close()


async def test_start_that_was_killed_while_it_made_room_is_repeated(tmp_path: Path) -> None:
    await (await SqliteMetastore.open(tmp_path / "m.db")).close()
    with sqlite3.connect(tmp_path / "m.db") as connection:
        connection.execute("CREATE TABLE reserve (room BLOB NOT NULL)")
        connection.execute("INSERT INTO reserve VALUES (zeroblob(100000))")
    connection.close()
    await (await SqliteMetastore.open(tmp_path / "m.db")).close()


async def test_closed_store_refuses(tmp_path: Path) -> None:
    store = await SqliteMetastore.open(tmp_path / "m.db")
    await store.close()
    await store.close()
    with pytest.raises(MetastoreFault, match="closed"):
        await store.read("a")
