"""One segment: its place in the log, its size, its index when loaded, and its descriptor when open.

Not here: which segment is active, what is staged. The descriptor is opened on first use and closed
by `close_file`, or when its last reader is done (`users`), so that no cold read meets a closed or
reused descriptor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.log import names
from broker.log.damage import DamagedRange
from broker.log.index import SegmentIndex, Times, decode_indexes, encode_index, encode_time_index
from broker.model import INT32_MAX
from broker.ports import Buffer, Disk, DiskFault, DiskFile, DiskFull


class IndexFiles(NamedTuple):
    """Both files of a segment as it was with `log_bytes`."""

    log_bytes: int
    index_file: bytes
    time_index_file: bytes


class Written(NamedTuple):
    """One append: `batches`, one behind the other, stand at byte `position` of the segment at
    `segment_base`. Their memory is their sender's: it lasts until the turn is settled.
    """

    segment_base: int
    position: int
    batches: Sequence[Buffer]


class Segment:
    """`size` counts written and staged bytes, `times` and `index` cover both. A closed segment's
    `index` may be None.

    Reads below `unchecked_below` check every batch: those bytes are not known to be what this
    process appended or checked, because they were there before it, or because the device may have
    been read meanwhile. `damaged` ranges ascend.
    """

    __slots__ = (
        "_file",
        "_indexed_bytes",
        "_is_closing",
        "_is_retired",
        "_writes",
        "base_offset",
        "damaged",
        "directory",
        "disk",
        "index",
        "size",
        "times",
        "unchecked_below",
        "users",
    )

    size: int

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, size: int | None = None
    ) -> None:
        """Without `size` the file is asked when somebody wants to know: a start with a thousand
        closed segments touches none of them.
        """
        self.disk = disk
        self.directory = directory
        self.base_offset = base_offset
        if size is not None:
            self.size = size
        self.index: SegmentIndex | None = None
        self.times: Times | None = None
        self.users = 0
        self.unchecked_below = 0
        self.damaged: tuple[DamagedRange, ...] = ()
        self._file: DiskFile | None = None
        self._is_closing = False
        self._is_retired = False
        self._writes = 0
        self._indexed_bytes = 0

    if not TYPE_CHECKING:  # it would hide misspelt names from the type checker

        def __getattr__(self, name: str) -> int:
            """The size, the first time it is asked for: 0 when the file is gone. Raises
            DiskFault.
            """
            if name != "size":
                raise AttributeError(name)
            try:
                self.size = self.disk.file_size(self.path())
            except FileNotFoundError:
                self.size = 0
            return self.size

    @classmethod
    def empty(
        cls, disk: Disk, directory: str, base_offset: int, file: DiskFile | None = None
    ) -> Segment:
        """A new segment, its index loaded."""
        segment = cls(disk, directory, base_offset, 0)
        segment.index = SegmentIndex(base_offset)
        segment.times = Times()
        segment._file = file
        return segment

    def path(self, suffix: str = names.LOG) -> str:
        """Path of one of its files."""
        return f"{self.directory}/{names.numbered(self.base_offset, suffix)}"

    def file(self) -> DiskFile:
        """The open log file. Raises FileNotFoundError, also once it is retired and was closed;
        DiskFault.
        """
        if self._is_retired:
            if self._file is None:
                raise FileNotFoundError(self.path())
            return self._file
        if self._file is None:
            self._file = self.disk.open(self.path())
        self._is_closing = False
        return self._file

    @property
    def is_open(self) -> bool:
        """True while it holds a descriptor."""
        return self._file is not None

    def has_room(self, next_offset: int) -> bool:
        """False when relative offsets beyond `next_offset` would leave 31 bits (KAFKA-6264)."""
        return next_offset - self.base_offset <= INT32_MAX

    def close_file(self) -> None:
        """Give the descriptor back, at once or when the last cold read is done."""
        if self.users:
            self._is_closing = True
        elif self._file is not None:
            self._file.close()
            self._file = None
            self._is_closing = False

    def retire(self) -> None:
        """It left the log, or its log was closed: no file is opened any more for whoever still
        reads it. What has its name may be another one.
        """
        self._is_retired = True
        self.close_file()

    async def read_cold(self, position: int, size: int) -> bytes:
        """`DiskFile.read_cold` that keeps the descriptor open meanwhile. What it brings into memory
        may differ from what was appended, and others may read it before this returns.
        """
        file = self.file()
        self.doubt(self.size)
        self.users += 1
        try:
            return await file.read_cold(position, size)
        finally:
            self._leave()

    def doubt(self, end_position: int) -> None:
        """What lies below may come from the device from now on."""
        self.unchecked_below = max(self.unchecked_below, end_position)

    async def seal(self) -> None:
        """`DiskFile.seal` that keeps the descriptor open meanwhile; nothing to do without one."""
        if self._file is None:
            return
        self.users += 1
        try:
            await self._file.seal()
        finally:
            self._leave()

    async def rewrite(self, position: int) -> None:
        """`DiskFile.rewrite` that keeps the descriptor open meanwhile."""
        file = self.file()
        self.users += 1
        try:
            await file.rewrite(position)
        finally:
            self._leave()

    def hold(self) -> DiskFile:
        """The open log file, kept open until `release`. Raises as `file`."""
        file = self.file()
        self.users += 1
        return file

    def release(self) -> None:
        """Once for each `hold`."""
        self._leave()

    async def sync(self) -> None:
        """`DiskFile.sync` that keeps the descriptor open meanwhile."""
        file = self.file()
        self.users += 1
        try:
            await file.sync()
        finally:
            self._leave()

    def _leave(self) -> None:
        self.users -= 1
        if self._is_closing and not self.users:
            self.close_file()

    def load_index(self) -> bool:
        """Read both index files; False when they are missing, damaged, or do not cover exactly this
        log file.
        """
        found = read_indexes(self)
        if found is None or found[2] != self.size:
            return False
        self.index, self.times, _ = found
        return True

    async def write_index(self, files: IndexFiles) -> None:
        """Replace both files, unless newer ones were written meanwhile. They are not synced: a torn
        one is recognised.
        """
        self._writes += 1
        targets = [self.path(names.INDEX), self.path(names.TIME_INDEX)]
        sources = [f"{path}.{self._writes}{names.TEMPORARY}" for path in targets]
        try:
            for path, content in zip(sources, files[1:], strict=True):
                await self._write_new(path, content)
            if files.log_bytes >= self._indexed_bytes:
                self._indexed_bytes = files.log_bytes
                for source, target in zip(sources, targets, strict=True):
                    self.disk.rename(source, target)
                return
        except DiskFull:
            await self._unlink_all(sources)  # room is what is short
            raise
        await self._unlink_all(sources)

    async def _unlink_all(self, paths: list[str]) -> None:
        for path in paths:
            await self.disk.unlink(path)

    async def _write_new(self, path: str, content: bytes) -> None:
        if self.disk.exists(path):  # left by an attempt that failed
            await self.disk.unlink(path)
        file = await self.disk.create(path)
        try:
            file.append([content])
        finally:
            file.close()

    def encode_index_files(self) -> IndexFiles:
        """What `write_index` takes, as of now."""
        assert self.index is not None, "the index is loaded"
        assert self.times is not None, "the index is loaded"
        return IndexFiles(
            self.size,
            encode_index(self.index, self.size),
            encode_time_index(self.index, self.size, self.times),
        )


def read_indexes(segment: Segment) -> tuple[SegmentIndex, Times, int] | None:
    """Both index files as `decode_indexes` gives them; None when one cannot be read."""
    try:
        index_file = segment.disk.read_file(segment.path(names.INDEX))
        time_index_file = segment.disk.read_file(segment.path(names.TIME_INDEX))
    except (FileNotFoundError, DiskFault):
        return None
    return decode_indexes(segment.base_offset, index_file, time_index_file)
