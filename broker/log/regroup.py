"""Neighbouring segments becoming one: the file that takes their place, and the exchange.

Not here: what is left of their batches. Nothing is written while all that came was unchanged and of
one segment. The exchange is durable step by step: a crash leaves the old segments or the new one
(see `names`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from broker.log import names
from broker.log.index import SegmentIndex, Times
from broker.log.retention import rename_deleted, unlink_doomed
from broker.log.scan import scan
from broker.log.segment import Segment
from broker.log.survey import store
from broker.model import INT32_MAX, NO_TIMESTAMP
from broker.ports import DiskFault, DiskFile, DiskFull, NoDescriptor
from broker.records.batch import BatchHeader

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog

MERGED_RETENTION_SHARE: Final = 10
"""Where old segments are deleted too, such a part of `retention.ms` at most lies between the ends
of segments that become one: it is deleted when the last of it is old.
"""


class Group:
    """Segments of which one is being made. `written_bytes` went to its file."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.segments: list[Segment] = []
        self.end_offset = 0
        self.written_bytes = 0
        self._size = 0
        self._is_changed = False
        self._unwritten: list[tuple[Segment, int, int]] = []
        self._file: DiskFile | None = None
        self._append_times = _AppendTimes()
        self._before = (0, 0, 0, NO_TIMESTAMP)

    def has_room(self, segment: Segment, end_offset: int) -> bool:
        """Whether `segment`, the next one, may become part of it."""
        if not self.segments:
            return True
        log = self.log
        first = self.segments[0]
        is_written = self._is_changed or len(self.segments) > 1
        if not is_written and first.size >= log.config.segment_bytes // 2:
            return False  # writing it again would gain little
        return (
            (not self._size or self._size + segment.size <= log.config.segment_bytes)
            and end_offset - first.base_offset <= INT32_MAX
            and not (log.config.is_deleted and self._is_much_older(segment))
        )

    def _is_much_older(self, segment: Segment) -> bool:
        """Than `segment`, which would keep what is in the group from being deleted in time."""
        retention_ms = self.log.config.retention_ms
        if retention_ms < 0 or segment.times is None:
            return False
        span_ms = segment.times.last_append_time - self._append_times.oldest_end
        return span_ms > retention_ms // MERGED_RETENTION_SHARE

    async def begin(self, segment: Segment, end_offset: int) -> None:
        """What comes now is of `segment`. Raises DiskFull, DiskFault."""
        if self.segments:
            await self._write_unwritten()
        await self.log.load_index(segment)  # last: readers may close it during any other wait
        self._before = (self.end_offset, self.written_bytes, self._size, self._append_times.last)
        self.segments.append(segment)
        self.end_offset = end_offset
        self._append_times.add(segment, end_offset)

    async def take_back(self) -> None:
        """As it was before the present segment. Raises DiskFault."""
        self.segments.pop()
        self.end_offset, self.written_bytes, self._size, self._append_times.last = self._before
        self._unwritten.clear()
        if self._file is not None and self.segments:
            self._file.truncate(self.written_bytes)
        elif not self.segments:
            self._is_changed = False

    def take_unchanged(self, position: int, content: bytes) -> None:
        """The next stretch of the present segment, as it is. Raises DiskFull, DiskFault."""
        self._size += len(content)
        if self._file is None:
            self._unwritten.append((self.segments[-1], position, len(content)))
        else:
            self._write(content)

    async def take(self, content: bytes) -> None:
        """What is left of the next stretch of the present segment."""
        self._is_changed = True
        self._size += len(content)
        await self._write_unwritten()
        self._write(content)

    async def give_up(self) -> None:
        """Leave everything as it is. Raises DiskFault."""
        if (path := self.close_file()) is not None:
            await self.log.disk.unlink(path)

    def close_file(self) -> str | None:
        """Give the descriptor back; the path of what was written, None when nothing was."""
        file, self._file = self._file, None
        if file is None:
            return None
        file.close()
        return file.path

    async def finish(self) -> bool:
        """Put the new segment in the place of the old ones; False when nothing would change.
        Raises DiskFull, DiskFault.
        """
        if not self.segments or not (self._is_changed or len(self.segments) > 1):
            await self.give_up()
            return False
        await self._write_unwritten()
        assert self._file is not None, "something changed, so it is written"
        log, file = self.log, self._file
        merged = Segment.empty(log.disk, log.directory, self.segments[0].base_offset, file)
        merged.users = 1  # keeps the descriptor: the file has another name for a while
        merged.size = file.size()
        await file.sync()
        await self._exchange(merged)
        return True

    @property
    def _path(self) -> str:
        base = self.segments[0].base_offset
        return f"{self.log.directory}/{names.ranged(base, 0, names.CLEANED)}"

    async def _write_unwritten(self) -> None:
        if self._file is None:
            await self.log.disk.unlink(self._path)
            self._file = await self.log.disk.create(self._path)
        stretches, self._unwritten = self._unwritten, []
        for segment, position, size in stretches:
            self._write(await segment.read_cold(position, size))

    def _write(self, content: bytes) -> None:
        assert self._file is not None, "the file is made"
        if content:
            self._file.append([content])
            self.written_bytes += len(content)

    async def _exchange(self, merged: Segment) -> None:
        log = self.log
        merged.index, merged.times = await self._index_of(merged)
        index_files = merged.encode_index_files()  # while nobody else can drop the index
        swap = f"{log.directory}/{names.ranged(merged.base_offset, self.end_offset, names.SWAP)}"
        log.check_online()  # a closed log's directory may be another topic's by now
        log.disk.rename(self._path, swap)
        try:
            await self._sync_names()  # from here on a restart finishes the exchange
        except DiskFull:
            log.disk.rename(swap, self._path)
            raise
        log.check_online()
        try:
            await self._replace(merged, swap)
        except Exception as failure:
            # Only a restart may finish it: until then another exchange would leave this swap
            # behind, and the restart would put it in the place of newer segments.
            fault = DiskFault(swap, f"could not take its place: {failure}")
            log.go_offline(fault)
            merged.release()  # who closes the log closes it then, or has done so
            raise fault from failure
        with suppress(DiskFull):  # it is in memory, and can be made again from the log
            await merged.write_index(index_files)
        log.open_segments.touch(merged)
        await self._sync_names()
        await unlink_doomed(log, are_names_synced=True)

    async def _replace(self, merged: Segment, swap: str) -> None:
        log, group = self.log, self.segments
        for segment in group:  # the first, too: a rename over it would free all its blocks at once
            log.doomed += rename_deleted(log.disk, segment)
        log.replace_segments(group, [merged])
        self._file = None  # it is the log's now
        if any(segment.damaged for segment in group):  # it was whole again, so that it was cleaned
            await store(log)  # before another file has its name
        await self._sync_names()
        log.disk.rename(swap, merged.path())
        merged.users -= 1

    async def _sync_names(self) -> None:
        """Of the log's directory. Without a descriptor others give back theirs, once."""
        log = self.log
        try:
            await log.disk.sync_directory(log.directory)
        except NoDescriptor:
            log.open_segments.make_room()
            await log.disk.sync_directory(log.directory)

    async def _index_of(self, merged: Segment) -> tuple[SegmentIndex, Times]:
        """The index of what was written, which is read back for it. Raises DiskFault."""
        visitor = _Visitor(merged.base_offset, self.log.index_interval_bytes, self._append_times)
        end = await scan(merged, 0, merged.base_offset, visitor.visit)
        if end.reason is not None or end.next_offset > self.end_offset:
            raise DiskFault(
                self._path, f"the compacted segment is damaged at byte {end.position}: {end.reason}"
            )
        merged.unchecked_below = 0  # all of it was checked just now
        times = self._append_times
        return visitor.index, Times(times.first, times.last, visitor.max_timestamp)


class _AppendTimes:
    """When what is now in one segment was appended, as closely as the old indexes say."""

    def __init__(self) -> None:
        self.first = self.last = self.oldest_end = NO_TIMESTAMP
        """Of all segments; `oldest_end` is the last append of the first one."""
        self._offsets = array("q")
        self._times = array("q")

    def add(self, segment: Segment, end_offset: int) -> None:
        index, times = segment.index, segment.times
        assert index is not None, "the index is loaded"
        assert times is not None, "an index is loaded with its times"
        if self.first == NO_TIMESTAMP:
            self.first, self.oldest_end = times.first_append_time, times.last_append_time
        self.last = max(self.last, times.last_append_time)
        for relative, append_time in zip(index.relative_offsets, index.append_times, strict=True):
            self._offsets.append(segment.base_offset + relative)
            self._times.append(append_time)
        self._offsets.append(end_offset)
        self._times.append(self.last)

    def before(self, offset: int) -> int:
        """Everything below `offset` was appended by then."""
        place = bisect_right(self._offsets, offset)
        return self._times[min(place, len(self._times) - 1)]


class _Visitor:
    """Builds the index of a compacted segment."""

    def __init__(self, base_offset: int, interval: int, append_times: _AppendTimes) -> None:
        self.index = SegmentIndex(base_offset)
        self.max_timestamp = NO_TIMESTAMP
        self._interval = interval
        self._append_times = append_times
        self._append_time = 0

    def visit(self, header: BatchHeader, position: int) -> None:
        if position - self.index.last_position() >= self._interval:
            self._append_time = max(
                self._append_time, self._append_times.before(header.base_offset)
            )
            self.index.add(header.base_offset, position, self._append_time, self.max_timestamp)
        if header.record_count:
            self.max_timestamp = max(self.max_timestamp, header.max_timestamp)


async def discard(group: Group) -> None:
    """`Group.give_up` after a failure: what fails here, too, is left to the next start."""
    with suppress(DiskFault, FileNotFoundError):
        await group.give_up()
