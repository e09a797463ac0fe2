"""Compaction: of the closed segments only the newest value of each key stays, at its offset.

Not here: when to run (`needs_clean`). Pass one walks slices from the newest to the oldest and notes
which records survive; pass two rewrites from the oldest on and merges small results. What a batch
holds is looked at in the worker (`compaction`); the loop reads, writes and swaps. A crash leaves
the old segments or the new one (see `names`).
"""

from __future__ import annotations

from array import array
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from broker.log import names
from broker.log.compaction import DIGEST_BYTES, Newest, find_newest, rewrite
from broker.log.recovery import IndexVisitor
from broker.log.retention import SEGMENT_SUFFIXES, delete_segments, rename_deleted
from broker.log.scan import scan
from broker.log.segment import Segment
from broker.model import INT32_MAX
from broker.ports import DiskFault, Worker

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog

CLEAN_SLICE_BYTES: Final = 512 * 1024
"""Bytes per call of the worker (a bigger batch goes alone)."""
CLEAN_SLICE_OFFSETS: Final = 250_000
"""Offsets per call of the worker, likewise: small batches may unpack to very many records."""
KEYS_MAX: Final = 1_000_000
"""Keys remembered per run (their digests); of further keys older values stay for another run."""
KEYS_PER_STEP: Final = 1_000
"""Keys looked up in one step of the loop."""


class SegmentPlan:
    """A closed segment with its slices (position, bytes) and, per slice, the surviving offsets;
    None = all of it. Slices of which nothing survives are left out.
    """

    __slots__ = ("end_offset", "is_unchanged", "segment", "slices", "survivors")

    def __init__(self, segment: Segment, end_offset: int, slices: list[tuple[int, int]]) -> None:
        self.segment = segment
        self.end_offset = end_offset
        self.slices = slices
        self.survivors: list[bytes | None] = [None] * len(slices)
        self.is_unchanged = True


def is_due(log: PartitionLog) -> bool:
    """True when the uncleaned share of the closed segments reached `min.cleanable.dirty.ratio`."""
    if (
        not log.config.is_compacted
        or log.is_in_upkeep
        or log.offline_reason
        or len(log.segments) < 2
    ):
        return False
    closed = log.segments[:-1]
    dirty_bytes = sum(
        segment.size for segment in closed if segment.base_offset >= log.cleaned_end_offset
    )
    total_bytes = sum(segment.size for segment in closed)
    return dirty_bytes > 0 and dirty_bytes >= log.config.min_cleanable_dirty_ratio * total_bytes


async def clean(log: PartitionLog, worker: Worker, now_wall_ms: int) -> bool:
    """Compact all closed segments; True when some were rewritten. Raises DiskFull, DiskFault."""
    log.check_online()
    if log.is_in_upkeep or len(log.segments) < 2:
        return False
    log.is_in_upkeep = True
    try:
        await log.checkpoint()  # a start scans from there and expects no gaps behind it
        segments = [
            each for each in log.segments if each.base_offset <= log.checkpoints.segment_base
        ]
        if len(segments) < 2:
            return False
        end_offset = segments[-1].base_offset
        plans = await _plan(log, worker, segments)
        is_changed = await _rewrite_all(log, worker, plans, now_wall_ms)
        log.cleaned_end_offset = end_offset
        await log.checkpoint()
    finally:
        log.is_in_upkeep = False
    return is_changed


async def _plan(log: PartitionLog, worker: Worker, segments: list[Segment]) -> list[SegmentPlan]:
    """Which records of all but the last segment survive, decided from the newest to the oldest; the
    plans in log order.
    """
    plans: list[SegmentPlan] = []
    seen: set[bytes] = set()
    for place in range(len(segments) - 2, -1, -1):
        segment = segments[place]
        await log.load_index(segment)
        plan = SegmentPlan(segment, segments[place + 1].base_offset, _slices(segment))
        for number in range(len(plan.slices) - 1, -1, -1):
            content = await segment.read_cold(*plan.slices[number])
            found = await worker.call(find_newest, content)
            surviving = await _unseen(found, seen)
            if not surviving and not found.has_others:
                del plan.slices[number], plan.survivors[number]
                plan.is_unchanged = False
            elif len(surviving) != found.record_count or found.has_tombstones:
                plan.survivors[number] = surviving.tobytes()
                plan.is_unchanged = False
        plans.append(plan)
    plans.reverse()
    return plans


async def _unseen(found: Newest, seen: set[bytes]) -> array[int]:
    """The offsets of keys that are not in `seen`, which learns them while it has room; a thousand
    keys a step.
    """
    surviving = array("q")
    offsets = array("q", found.offsets)
    for first in range(0, len(offsets), KEYS_PER_STEP):
        for place in range(first, min(first + KEYS_PER_STEP, len(offsets))):
            digest = found.digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]
            if digest not in seen:
                surviving.append(offsets[place])
                if len(seen) < KEYS_MAX:
                    seen.add(digest)
        await _OthersFirst()
    return surviving


class _OthersFirst:
    """Awaited, it lets everybody else have a turn of the loop, which the log knows nothing of."""

    def __await__(self) -> Generator[None]:
        yield


def _slices(segment: Segment) -> list[tuple[int, int]]:
    """(position, bytes) of neighbouring stretches that begin and end at batches, by the index."""
    assert segment.index is not None, "the index is loaded"
    slices = []
    start = start_offset = 0
    for position, offset in zip(
        segment.index.positions, segment.index.relative_offsets, strict=True
    ):
        is_big = position - start >= CLEAN_SLICE_BYTES
        if position > start and (is_big or offset - start_offset >= CLEAN_SLICE_OFFSETS):
            slices.append((start, position - start))
            start, start_offset = position, offset
    if segment.size > start:
        slices.append((start, segment.size - start))
    return slices


async def _rewrite_all(
    log: PartitionLog, worker: Worker, plans: list[SegmentPlan], now_wall_ms: int
) -> bool:
    """Rewrite groups of neighbouring segments, each into one; True when any was."""
    is_changed = False
    place = 0
    while place < len(plans):
        if plans[place].is_unchanged and plans[place].segment.size >= log.config.segment_bytes // 2:
            place += 1
            continue
        count = await _rewrite_group(log, worker, plans[place:], now_wall_ms)
        is_changed |= count > 1 or not plans[place].is_unchanged
        place += count
    return is_changed


async def _rewrite_group(
    log: PartitionLog, worker: Worker, plans: list[SegmentPlan], now_wall_ms: int
) -> int:
    """Rewrite the first plan and as many of the next as fit one segment; how many were taken."""
    first = plans[0]
    if first.is_unchanged and (
        len(plans) == 1 or first.segment.size + plans[1].segment.size > log.config.segment_bytes
    ):
        return 1
    base = first.segment.base_offset
    path = f"{log.directory}/{names.ranged(base, 0, names.CLEANED)}"
    await log.disk.unlink(path)
    file = await log.disk.create(path)
    merged = Segment.empty(log.disk, log.directory, base, file)
    merged.users = 1  # keeps the descriptor: the file has another name for a while
    count = 0
    try:
        for plan in plans:
            if count and (
                file.size() >= log.config.segment_bytes // 2
                or plan.end_offset - base > INT32_MAX
                or plan.is_unchanged
            ):
                break
            for (position, size), survivors in zip(plan.slices, plan.survivors, strict=True):
                content = await plan.segment.read_cold(position, size)
                if survivors is not None:
                    content = await worker.call(
                        rewrite, content, survivors, now_wall_ms, log.config.delete_retention_ms
                    )
                if content:
                    file.append([content])
            count += 1
        merged.size = file.size()
        await file.sync()
        await _swap(
            log, [plan.segment for plan in plans[:count]], merged, path, plans[count - 1].end_offset
        )
    except BaseException:
        if merged not in log.segments:
            file.close()
        raise
    return count


async def _swap(
    log: PartitionLog, group: list[Segment], merged: Segment, path: str, end_offset: int
) -> None:
    """Put `merged`, written and synced under `path`, in the place of `group`."""
    disk, directory = log.disk, log.directory
    if merged.size == 0:
        merged.users = 0
        merged.close_file()
        await disk.unlink(path)
        await delete_segments(log, group)
        return
    append_time = max([(await log.load_index(segment)).last_append_time for segment in group])
    end = await scan(
        merged,
        0,
        merged.base_offset,
        IndexVisitor(merged, log.index_interval_bytes, append_time).visit,
    )
    if end.reason is not None or end.next_offset > end_offset:
        raise DiskFault(
            path, f"the compacted segment is damaged at byte {end.position}: {end.reason}"
        )
    swap = f"{directory}/{names.ranged(merged.base_offset, end_offset, names.SWAP)}"
    disk.rename(path, swap)
    await disk.sync_directory(directory)  # from here on a restart finishes the swap
    log.check_online()
    renamed = rename_deleted(disk, group[0], SEGMENT_SUFFIXES[1:])
    for segment in group[1:]:
        renamed += rename_deleted(disk, segment)
    log.replace_segments(group, [merged])
    await disk.sync_directory(directory)
    disk.rename(swap, merged.path())
    merged.users -= 1
    await merged.write_index(merged.encode_index_files())
    log.open_segments.touch(merged)
    await disk.sync_directory(directory)
    for name in renamed:
        await disk.unlink(name)
