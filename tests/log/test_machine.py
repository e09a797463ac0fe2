"""The log against a naive model: appends, faults, kills, rolls, deletions, reads in any order."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.errors import ErrorCode
from broker.ports import DiskFull
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    SMALL,
    FaultyDisk,
    create,
    read_from,
    refusal_of,
    reopen,
    stage,
)

CONFIG = replace(SMALL, segment_bytes=500, retention_bytes=1500)


class LogMachine(RuleBasedStateMachine):
    """`written` and `staged` hold (offset, value) of all records."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.disk = FaultyDisk(Path(self.directory.name))
        self.log = self.run(create(self.disk, CONFIG))
        self.written: list[tuple[int, str]] = []
        self.staged: list[tuple[int, str]] = []
        self.sequence = 0
        self.last: tuple[int, int, tuple[str, ...]] | None = None
        self.number = 0
        self.epoch = 0
        self.start = 0

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        self.run(self.log.close())
        self.disk.close()
        self.runner.close()
        self.directory.cleanup()

    @property
    def end(self) -> int:
        records = self.staged or self.written
        return max(records[-1][0] + 1 if records else 0, self.start)

    @rule(count=st.integers(1, 4), size=st.integers(0, 150), is_idempotent=st.booleans())
    def stage(self, count: int, size: int, is_idempotent: bool) -> None:
        values = tuple(f"{self.number + place}".ljust(size, ".") for place in range(count))
        self.number += count
        options: dict[str, Any] = {}
        end = self.end
        if is_idempotent:
            options = {"producer_id": 9, "producer_epoch": 0, "base_sequence": self.sequence}
        result = stage(self.log, *values, epoch=self.epoch, **options)
        assert result == (end, end + count - 1, -1, self.log.log_start_offset, False)
        self.staged += [(end + place, value) for place, value in enumerate(values)]
        if is_idempotent:
            self.last = (end, self.sequence, values)
            self.sequence += count

    @precondition(lambda self: self.last is not None)
    @rule()
    def retry(self) -> None:
        assert self.last is not None
        offset, sequence, values = self.last
        options = {"producer_id": 9, "producer_epoch": 0, "base_sequence": sequence}
        result = stage(self.log, *values, epoch=self.epoch, **options)
        assert (result.base_offset, result.is_duplicate) == (offset, True)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.written += self.staged
        self.staged.clear()

    @precondition(lambda self: self.staged)
    @rule(written=st.integers(0, 400))
    def flush_on_a_full_disk(self, written: int) -> None:
        self.disk.fail_append = (written, DiskFull)
        try:
            self.log.flush()
        except DiskFull:
            pass
        else:
            raise AssertionError("the disk is full")
        self.forget_staged()

    def forget_staged(self) -> None:
        lost = {offset for offset, _ in self.staged}
        self.staged.clear()
        if self.last is not None and self.last[0] in lost:
            self.last = None
        entry = self.log.producers.entries.get(9)
        self.sequence = 0 if entry is None else entry[2][-1].last_sequence + 1

    @rule()
    def roll(self) -> None:
        self.run(self.log.roll(NOW_MS))
        self.written += self.staged if self.log.written_end_offset == self.end else []
        self.staged = [] if self.log.written_end_offset == self.end else self.staged

    @rule()
    def roll_if_needed(self) -> None:
        if self.log.needs_roll:
            self.roll()

    @rule()
    def delete_old(self) -> None:
        self.flush()
        self.start = self.run(self.log.apply_retention(NOW_MS))
        assert self.log.log_size() < 1500 + 1500

    @rule(part=st.floats(0, 1))
    def advance(self, part: float) -> None:
        self.flush()
        self.start = max(self.start, int(self.start + part * (self.end - self.start)))
        self.run(self.log.advance_log_start(self.start))

    @rule()
    def stop_and_start(self) -> None:
        self.flush()
        self.run(self.log.close())
        self.log = self.run(reopen(self.disk, CONFIG))
        self.epoch += 1

    @rule(tail=st.binary(max_size=150))
    def kill_and_start(self, tail: bytes) -> None:
        path = self.disk.root / self.log.active.path()
        for segment in self.log.segments:
            segment.close_file()
        with path.open("ab") as file:
            file.write(tail)
        self.log = self.run(reopen(self.disk, CONFIG))
        self.forget_staged()
        assert self.log.damage == []
        self.epoch += 1

    @rule(suffix=st.sampled_from([".idx", ".timeidx"]))
    def lose_an_index(self, suffix: str) -> None:
        for path in (self.disk.root / DIRECTORY).glob(f"*{suffix}"):
            path.unlink()

    @rule(
        part=st.floats(0, 1),
        max_bytes=st.integers(0, 600),
        bound=st.integers(0, 20),
        is_eager=st.booleans(),
    )
    def read(self, part: float, max_bytes: int, bound: int, is_eager: bool) -> None:
        start, written_end = self.log.log_start_offset, self.log.written_end_offset
        offset = int(start + part * (written_end - start))
        end = max(offset, written_end - bound)
        cold = self.run(self.log.read_cold(offset, max_bytes, end, at_least_one=is_eager))
        warm = self.log.read(offset, max_bytes, end, at_least_one=is_eager)
        assert warm is None or warm == cold
        assert offset <= cold.next_offset <= end
        if not is_eager:
            assert len(cold.records) <= max_bytes
        assert (cold.next_offset == offset) == (len(cold.records) == 0)

    @invariant()
    def offsets_agree(self) -> None:
        log = self.log
        assert log.log_end_offset == self.end
        assert log.log_start_offset == self.start <= log.written_end_offset <= log.log_end_offset

    @invariant()
    def everything_is_read_back(self) -> None:
        records = self.run(read_from(self.log, self.log.log_start_offset))
        found = [(record.offset, (record.value or b"").decode()) for record in records]
        assert found == [entry for entry in self.written if entry[0] >= self.start]

    @invariant()
    def outside_offsets_are_refused(self) -> None:
        for offset in (self.log.log_start_offset - 1, self.log.log_end_offset + 1):
            code = refusal_of(self.log.read, offset, 1, FOREVER, at_least_one=True)
            assert code == ErrorCode.OFFSET_OUT_OF_RANGE


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
