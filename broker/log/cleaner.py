"""Compaction: of the closed segments only the newest value of each key stays, at its offset.

Not here: when to run (`cleanable`), what a batch becomes (`compaction`, in the worker), how files
are exchanged (`regroup`). A run first surveys what no run has seen: is it sound, how did its
transactions end. Then, a pass for as many keys as fit in memory: the newest offset of each key, and
all segments so far rewritten by it, from the oldest on. Stopped anywhere, nothing is lost, and what
a pass has done need not be done again.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import count, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.log import cleanable, compaction
from broker.log.compaction import Span, Survey, Terms
from broker.log.key_map import capacity_of
from broker.log.regroup import Group, discard
from broker.log.retention import CHECKPOINT_ATTEMPTS_MAX
from broker.log.salvage import Salvage
from broker.log.segment import Segment
from broker.log.survey import survey as measure_damage
from broker.log.turns import OthersFirst
from broker.model import INT64_MAX
from broker.ports import ReadFault, Worker, WorkerFault

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog

CLEAN_SLICE_BYTES: Final = 128 * 1024
"""Bytes per call of the worker (a bigger batch goes alone): others wait for it meanwhile."""
CLEAN_SLICE_OFFSETS: Final = 20_000
"""Offsets per call of the worker, likewise: small batches may unpack to very many records."""
PRODUCERS_PER_STEP: Final = 1_000
"""Looked at in one step of the loop."""
_run_ids: Final = count()


async def _no_pause(_size: int) -> None:
    """A run without a limit on its speed."""


class CleanLimits(NamedTuple):
    """What a run may use. Memory for keys; `pace` waits as long as reading or writing so many bytes
    may take; nothing at or beyond `high_watermark` is cleaned.
    """

    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    pace: Callable[[int], Awaitable[None]] = _no_pause
    high_watermark: int = INT64_MAX


class Cleaned(NamedTuple):
    """What a run did. `damage`: segments that were left as they are, each with the reason."""

    is_changed: bool = False
    pass_count: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    damage: tuple[str, ...] = ()


async def clean(
    log: PartitionLog, worker: Worker, now_wall_ms: int, limits: CleanLimits
) -> Cleaned:
    """Compact all closed segments that may be. Raises DiskFull, DiskFault, WorkerFault: the log
    holds what it held, some of it cleaned.
    """
    log.check_online()
    if log.is_in_upkeep or len(log.segments) < 2:
        return Cleaned()
    log.is_in_upkeep = True
    run = _Run(log, worker, now_wall_ms, limits)
    try:
        if not await _foretell_gaps(log):
            return Cleaned()
        await log.checkpoints.drop_others(log)  # a start may not fall back to one before
        return await run.carry_out()
    except ReadFault as fault:  # of what could be read before: the next run looks at it first
        log.note_damage(str(fault))
        return Cleaned(run.is_changed, 0, run.read_bytes, run.written_bytes, (str(fault),))
    finally:
        log.is_in_upkeep = False


async def _foretell_gaps(log: PartitionLog) -> bool:
    """A start scans from the newest checkpoint, and expects no gaps behind it; that there may be
    some before it is stored before the first is made. False when others always came first.
    """
    log.cleaned_end_offset = max(log.cleaned_end_offset, 1)
    await log.checkpoint()
    for _ in range(CHECKPOINT_ATTEMPTS_MAX):
        if log.checkpoints.knows_of_gaps:
            return True
        await log.sync()  # the other one ends first
        await log.checkpoint()
    return False


class _Run:
    """One run over a log's closed segments."""

    def __init__(
        self, log: PartitionLog, worker: Worker, now_wall_ms: int, limits: CleanLimits
    ) -> None:
        self.log = log
        self.worker = worker
        self.now_wall_ms = now_wall_ms
        self.limits = limits
        self.run_id = next(_run_ids)
        self.damaged: dict[int, str] = {}
        """Base offset of a segment → why it is left as it is."""
        self.opaque: dict[int, str] = {}
        self.read_bytes = self.written_bytes = 0
        self.is_changed = False

    async def carry_out(self) -> Cleaned:
        log, worker = self.log, self.worker
        start = min(log.cleaned_end_offset, log.passed_over_offset)
        if start == 1:  # it may only foretell gaps: nobody has looked at offset 0 then
            start = 0
        start = max(start, log.segments[0].base_offset)
        end = await cleanable.end_of(log, self.now_wall_ms, self.limits.high_watermark)
        if end <= log.segments[0].base_offset:
            return Cleaned()
        await worker.call(compaction.begin_run, self.run_id)
        self._leave_lost_ends(end)
        start = min(start, max(log.passed_over_offset, log.segments[0].base_offset))
        end = await self._survey(start, end)
        pass_count = 0
        while start < end or not pass_count:  # without anything new, tombstones may have to go
            pass_end = await self._note_keys(start, end)
            assert start < pass_end <= end or start >= end == pass_end, "every pass gets on"
            await self._rewrite_up_to(pass_end)
            start = max(start, pass_end)
            log.cleaned_end_offset = max(log.cleaned_end_offset, start)
            await log.checkpoint()
            pass_count += 1
        with suppress(WorkerFault):  # it has forgotten the run already
            log.next_clean_ms = await worker.call(compaction.end_run, self.run_id)
        damage = (*self.damaged.values(), *self.opaque.values())
        log.uncleanable_reason = damage[0] if damage else ""
        log.passed_over_offset = min((*self.damaged, *self.opaque), default=INT64_MAX)
        return Cleaned(self.is_changed, pass_count, self.read_bytes, self.written_bytes, damage)

    # ---- pass 0: what no run has seen yet

    async def _survey(self, start: int, end: int) -> int:
        """Look through [start, end), and as far behind it as it takes to know how the transactions
        in it ended; up to where that is known.
        """
        found = Survey(is_sound=True, next_offset=start, first_open_offset=-1, is_full=False)
        for segment, segment_end in self._closed(start, end):
            if segment.base_offset in self.damaged:
                await self.worker.call(compaction.lose_sight, self.run_id, segment_end)
                continue
            async for position, content, span in self._slices(segment, segment_end, start):
                found = await self._look_at(content, span, end)
                if not found.is_sound:
                    await self._note_damage(segment, position, len(content))
                    await self.worker.call(compaction.lose_sight, self.run_id, segment_end)
                    break
                if found.is_full:
                    end = min(end, found.next_offset)
                    break
            if found.is_full:
                break
        if found.first_open_offset >= 0:
            found = await self._look_ahead(end, found)
        return end if found.first_open_offset < 0 else min(end, found.first_open_offset)

    async def _look_ahead(self, end: int, found: Survey) -> Survey:
        """Look behind `end` for markers of transactions that are open there; the last survey."""
        active = self.log.active, self.log.written_end_offset
        for segment, segment_end in [*self._closed(end, INT64_MAX), active]:
            async for _, content, span in self._slices(segment, segment_end, end):
                ahead = await self._look_at(content, span, end)
                if not ahead.is_sound or ahead.next_offset >= self._sight_end():
                    return ahead if ahead.is_sound else found
                found = ahead
                if found.first_open_offset < 0:
                    return found
        return found

    async def _look_at(self, content: bytes, span: Span, end: int) -> Survey:
        sight_end = self._sight_end()
        return await self.worker.call(compaction.survey, self.run_id, content, span, end, sight_end)

    def _sight_end(self) -> int:
        return min(self.limits.high_watermark, self.log.written_end_offset)

    # ---- pass 1 to n

    async def _note_keys(self, start: int, end: int) -> int:
        """Enter the keys of [start, end) in the worker's map; where it was full."""
        capacity = capacity_of(self.limits.dedupe_buffer_bytes, end - start)
        await self.worker.call(compaction.begin_keys, self.run_id, capacity)
        for segment, segment_end in self._closed(start, end):
            if segment.base_offset in self.damaged:
                continue
            async for position, content, span in self._slices(segment, segment_end, start):
                noted = await self.worker.call(
                    compaction.note_keys, self.run_id, content, span, start, end
                )
                if not noted.is_sound:
                    await self._note_damage(segment, position, len(content))
                    break  # it is left as it is, and the next run notes its keys anew
                if noted.is_full:
                    return noted.end_offset
        return end

    async def _rewrite_up_to(self, end: int) -> None:
        """Rewrite all segments that begin below `end` by the worker's map, from the oldest on."""
        await self.worker.call(compaction.begin_rewriting, self.run_id, await self._terms(end))
        group = Group(self.log)
        try:
            for segment, segment_end in self._closed(0, end):
                if segment.base_offset not in self.damaged and not group.has_room(
                    segment, segment_end
                ):
                    group = await self._finish(group)
                if segment.base_offset in self.damaged or not await self._rewrite(
                    group, segment, segment_end
                ):
                    group = await self._finish(group)
                    await self.worker.call(compaction.pass_damage, self.run_id)
            await self._finish(group)
        except Exception:
            await discard(group)
            raise
        except BaseException:  # the process ends: there is nothing to wait for
            group.close_file()
            raise

    async def _rewrite(self, group: Group, segment: Segment, segment_end: int) -> bool:
        """Add what is left of a segment to the group; False when it is damaged, and not added."""
        await group.begin(segment, segment_end)
        async for position, content, span in self._slices(segment, segment_end, 0):
            rewritten = await self.worker.call(compaction.rewrite, self.run_id, content, span)
            if not rewritten.is_sound:
                await self._note_damage(segment, position, len(content))
                await group.take_back()
                return False
            if rewritten.is_opaque:
                self._pass_over(segment)
                self.opaque[segment.base_offset] = (
                    f"{segment.path()}: a batch near byte {position} cannot be opened: it is kept, "
                    "and so are deletions behind it"
                )
            if rewritten.content is None:
                group.take_unchanged(position, content)
            else:
                await group.take(rewritten.content)
                await self.limits.pace(len(rewritten.content))
        return True

    async def _finish(self, group: Group) -> Group:
        """Exchange the group's segments for what is left of them; the next group."""
        if await group.finish():
            self.is_changed = True
            self.written_bytes += group.written_bytes
        return Group(self.log)

    async def _terms(self, end: int) -> Terms:
        """Batches stay that hold their producer's last sequence, or the end of what is closed."""
        log = self.log
        last_offsets = array("q", [log.active.base_offset - 1])
        entries = list(log.producers.entries.values())
        for first in range(0, len(entries), PRODUCERS_PER_STEP):
            for _, _, batches in entries[first : first + PRODUCERS_PER_STEP]:
                if batches[-1].last_offset < end:
                    last_offsets.append(batches[-1].last_offset)
            await OthersFirst()
        retention_ms = log.config.delete_retention_ms
        return Terms(end, self.now_wall_ms, retention_ms, last_offsets.tobytes())

    # ---- reading

    def _closed(self, start: int, end: int) -> list[tuple[Segment, int]]:
        """Closed segments with records in [start, end), each with its end offset."""
        return [
            (segment, following.base_offset)
            for segment, following in pairwise(self.log.segments)
            if segment.base_offset < end and following.base_offset > start
        ]

    async def _slices(
        self, segment: Segment, segment_end: int, start: int
    ) -> AsyncIterator[tuple[int, bytes, Span]]:
        """(position, bytes, offsets) of neighbouring stretches of whole batches, from the one with
        offset `start` on. What cannot be read is not sound.
        """
        await self.log.load_index(segment)
        assert segment.index is not None, "the index is loaded"
        slices, salvage = slices_of(segment, segment.index.floor_offset(start)[1]), Salvage(segment)
        firsts = [segment.index.floor_position(position)[0] for position, _ in slices]
        spans = pairwise([*firsts, segment_end])
        for (position, size), (first, end) in zip(slices, spans, strict=True):
            content = await salvage.read_cold(position, size)
            self.log.check_online()  # the file may be another topic's by now
            self.read_bytes += len(content)
            yield position, content, Span(first, end)
            await self.limits.pace(len(content))

    async def _note_damage(self, segment: Segment, position: int, size: int) -> None:
        found = await measure_damage(self.log, segment, position, size)
        where = f"{segment.path()}: a batch behind byte {position} is damaged"
        if found is None:
            self.log.note_damage(where)
        self._pass_over(segment)
        self.damaged[segment.base_offset] = (
            f"{where}: the segment is left as it is, and deletions behind it are kept"
        )

    def _leave_lost_ends(self, end: int) -> None:
        """A segment whose file lost its end stays as it is: in a compacted one nobody could tell
        the lost offsets from those that were cleaned away.
        """
        for segment, _ in self._closed(0, end):
            if any(found.position == found.end_position for found in segment.damaged):
                self._pass_over(segment)
                self.damaged[segment.base_offset] = (
                    f"{segment.path()}: the end of the file is lost: the segment is left as it is, "
                    "and deletions behind it are kept"
                )

    def _pass_over(self, segment: Segment) -> None:
        """It may be whole one day, and then hold what was replaced long ago: until then, restarts
        included, the keys of all behind it are noted anew, and its older values go before their
        deletions do.
        """
        self.log.passed_over_offset = min(self.log.passed_over_offset, segment.base_offset)


def slices_of(segment: Segment, start: int) -> list[tuple[int, int]]:
    """(position, bytes) of stretches that begin and end at batches, by the index, from position
    `start` on.
    """
    assert segment.index is not None, "the index is loaded"
    slices = []
    start_offset = segment.index.floor_position(start)[0] - segment.base_offset
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
