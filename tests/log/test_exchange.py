"""The exchange of segments for what the cleaner left of them, when it goes wrong in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from broker.errors import Refusal
from broker.log.names import CLEANED, DELETED, SNAPSHOT, SWAP
from broker.log.partition_log import PartitionLog
from broker.log.scrub import scrub
from broker.log.survey import damaged_ranges
from broker.ports import DiskFault, DiskFull, NoDescriptor
from tests.log.test_cleaner import CONFIG, WORKER, fill, newest, reopen_after_kill
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    FaultyDisk,
    InlineWorker,
    append_keyed,
    create,
    read_from,
    recreate,
    reopen,
)

T = TypeVar("T")


def has(disk: FaultyDisk, *suffixes: str) -> bool:
    """Whether there is a file of each kind."""
    names = disk.list_directory(DIRECTORY)
    return all(any(name.endswith(suffix) for name in names) for suffix in suffixes)


def without_descriptors(disk: FaultyDisk, suffix: str, count: int) -> Callable[[], None]:
    """The first `count` syncs of names while there is a file of that kind find no descriptor."""
    left = count

    def at_names() -> None:
        nonlocal left
        if left and has(disk, SWAP, suffix):
            left -= 1
            raise NoDescriptor(DIRECTORY, "injected")

    return at_names


async def filled(disk: FaultyDisk) -> tuple[PartitionLog, dict[bytes | None, bytes | None]]:
    """A log that is worth cleaning, and what each key is."""
    log = await create(disk, CONFIG)
    await fill(log, 60)
    return log, newest(await read_from(log, 0))


async def sparse(disk: FaultyDisk) -> tuple[PartitionLog, dict[bytes | None, bytes | None]]:
    """A log of which each closed segment loses its first record, and nearly nothing else."""
    log = await create(disk, CONFIG)
    for number in range(60):
        is_early = log.log_end_offset - log.active.base_offset < 2
        key = "hot" if is_early else f"k{number}"
        append_keyed(log, (key, f"v{number}".ljust(40, ".")))
        if log.needs_roll:
            await log.roll(NOW_MS)
    return log, newest(await read_from(log, 0))


async def test_an_exchange_whose_first_step_is_not_durable_leaves_nothing_for_a_start_to_finish(
    disk: FaultyDisk,
) -> None:
    log, everything = await filled(disk)
    disk.at_names = without_descriptors(disk, SWAP, 2)
    with pytest.raises(NoDescriptor):
        await log.clean(WORKER, NOW_MS)
    assert not has(disk, SWAP)
    assert not has(disk, CLEANED)
    assert not log.offline_reason, "too many open files is no failed disk"
    assert newest(await read_from(log, 0)) == everything
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    log = await reopen_after_kill(disk, log)
    assert newest(await read_from(log, 0)) == everything
    await log.close()


async def test_an_exchange_that_cannot_go_on_ends_the_log_and_the_next_start_finishes_it(
    disk: FaultyDisk,
) -> None:
    log, everything = await filled(disk)
    disk.at_names = without_descriptors(disk, DELETED, 2)
    with pytest.raises(DiskFault) as raised:
        await log.clean(WORKER, NOW_MS)
    assert not isinstance(raised.value, DiskFull), "going on would leave an old swap behind"
    assert log.offline_reason
    log = await reopen_after_kill(disk, log)
    assert not has(disk, SWAP)
    assert newest(await read_from(log, 0)) == everything
    await log.close()


async def test_without_a_descriptor_others_give_back_theirs_and_the_exchange_goes_on(
    disk: FaultyDisk,
) -> None:
    log, everything = await filled(disk)
    disk.at_names = without_descriptors(disk, DELETED, 1)
    asked: list[bool] = []
    log.open_segments.make_room = lambda: asked.append(True)
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    assert asked == [True]
    assert newest(await read_from(log, 0)) == everything
    await log.close()


async def test_readers_of_other_segments_may_close_the_new_one_while_it_takes_its_place(
    disk: FaultyDisk,
) -> None:
    log, everything = await sparse(disk)
    assert len(log.segments) > 4

    def read_others() -> None:
        if has(disk, SWAP, DELETED):
            for segment in log.segments[:-1]:
                log.open_segments.touch(segment)

    disk.at_names = read_others
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    assert newest(await read_from(log, 0)) == everything
    log = await reopen_after_kill(disk, log)
    assert newest(await read_from(log, 0)) == everything
    await log.close()


async def test_a_cleaning_of_a_deleted_topic_leaves_nothing_in_the_one_that_has_its_name(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, CONFIG)
    for number in range(5):
        append_keyed(log, ("old", f"{number}"))
    await log.roll(NOW_MS)
    again: list[PartitionLog] = []

    class Deleting(InlineWorker):
        async def call(self, function: Callable[..., T], *arguments: Any) -> T:
            if function.__name__ == "rewrite":
                again.append(await recreate(disk, log, CONFIG))
                append_keyed(again[0], ("new", "1"))
            return await super().call(function, *arguments)

    with pytest.raises(Refusal):
        await log.clean(Deleting(), NOW_MS)
    assert not has(disk, SWAP)
    (other,) = again
    other = await reopen_after_kill(disk, other)
    assert [record.key for record in await read_from(other, 0)] == [b"new"]
    await other.close()


async def test_without_its_newest_snapshot_a_cleaned_log_keeps_all_it_had(
    disk: FaultyDisk,
) -> None:
    """An older one would look for what was cleaned since, and take the gaps for damage."""
    log, everything = await sparse(disk)
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    for segment in log.segments:
        segment.close_file()
    snapshots = [name for name in disk.list_directory(DIRECTORY) if name.endswith(SNAPSHOT)]
    (disk.root / DIRECTORY / snapshots[-1]).write_bytes(b"not what was written")
    log = await reopen(disk, CONFIG)
    assert newest(await read_from(log, 0)) == everything
    assert log.log_end_offset == 60
    await log.close()


async def test_who_still_reads_a_replaced_segment_gets_no_other_file_of_that_name(
    disk: FaultyDisk,
) -> None:
    """With batches of one size, the place of a batch is that of a later one in the new file."""
    log, _ = await filled(disk)
    old = log.segments[0]
    old.users = 1  # a read is under way
    file = old.file()
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    assert log.segments[0] is not old
    assert log.segments[0].path() == old.path()
    assert old.file() is file, "it goes on in the file where it began"
    old.users = 0
    old.close_file()
    with pytest.raises(FileNotFoundError):
        old.file()
    await log.close()


@pytest.mark.parametrize("is_finished_by_a_start", [False, True])
async def test_damage_that_was_none_in_the_end_is_none_of_the_segment_that_takes_the_place(
    disk: FaultyDisk, *, is_finished_by_a_start: bool
) -> None:
    """A device that erred, or a file that somebody restored. Where the damage was, the new segment
    holds something else: it would be refused for good.
    """
    log, everything = await sparse(disk)
    log = await reopen_after_kill(disk, log)
    path = disk.root / log.segments[0].path()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"?" + content[101:])
    with pytest.raises(Refusal):
        await log.read_cold(0, 1000, FOREVER, at_least_one=True)
    assert damaged_ranges(log)
    path.write_bytes(content)
    if is_finished_by_a_start:
        disk.full_for = ".deleted"
        with pytest.raises(DiskFault):
            await log.clean(WORKER, NOW_MS)
        disk.full_for = None
        assert has(disk, SWAP)
    else:
        assert (await log.clean(WORKER, NOW_MS)).is_changed
    log = await reopen_after_kill(disk, log)
    assert not damaged_ranges(log)
    assert newest(await read_from(log, 0)) == everything
    await log.close()


async def test_nobody_takes_it_for_damage_that_the_name_is_missing_between_the_renames(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scrub opens files by their names, and indexes are read by theirs."""
    log, everything = await sparse(disk)
    log = await reopen_after_kill(disk, log)
    sync_directory, missing = disk.sync_directory, []

    async def look_first(path: str) -> None:
        gone = [segment for segment in log.segments if not disk.exists(segment.path())]
        if gone and not missing:
            missing.extend(gone)
            for segment in list(log.segments):
                await scrub(log, segment, WORKER, no_pause)
                await log.load_index(segment)
            assert newest(await read_from(log, 0)) == everything
        await sync_directory(path)

    monkeypatch.setattr(disk, "sync_directory", look_first)
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    assert missing
    assert not log.damage
    log = await reopen_after_kill(disk, log)
    assert not log.damage
    assert newest(await read_from(log, 0)) == everything
    await log.close()


async def no_pause(_size: int) -> None:
    """As fast as it goes."""


async def test_an_exchange_whose_topic_is_deleted_between_the_renames_keeps_no_file_open(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = await filled(disk)
    sync_directory = disk.sync_directory
    again: list[PartitionLog] = []

    async def delete_first(path: str) -> None:
        if not again and has(disk, SWAP, DELETED):
            again.append(await recreate(disk, log, CONFIG))
        await sync_directory(path)

    monkeypatch.setattr(disk, "sync_directory", delete_first)
    with pytest.raises(DiskFault):
        await log.clean(WORKER, NOW_MS)
    assert not [segment.path() for segment in log.segments if segment.is_open]
    await again[0].close()
