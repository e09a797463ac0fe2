"""A journal made by hand, and a log as a crash left it."""

from __future__ import annotations

from typing import NamedTuple

from broker.log.config import LogConfig
from broker.log.journal import (
    BLOCK_BYTES,
    FILE,
    FIRST_RECORD,
    JournalEntry,
    JournalHead,
    blocks_of,
    encode_head,
    read_heads,
    record_size,
    write_record,
)
from broker.simulator.faults import Kept, PowerCut
from tests.log.world import (
    DIRECTORY,
    TOPIC_ID,
    FaultyDisk,
    reopen,
    values,
)

RUN = bytes(range(100, 116))
OTHER_RUN = bytes(16 * [7])
WHOLE = LogConfig(index_interval_bytes=200)
FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"
CUTS = (
    None,
    PowerCut(1.0, Kept.NOTHING),
    PowerCut(0.0, Kept.NOTHING),
    PowerCut(0.0, Kept.EVERYTHING),
    PowerCut(0.0, Kept.TORN),
    PowerCut(0.0, Kept.HOLED),
)


class Round(NamedTuple):
    """What one round brought to the log: bytes [begin, end) of a segment."""

    begin: int
    end: int
    base: int = 0
    topic_id: bytes = TOPIC_ID


def record_of(entries: list[JournalEntry], sequence: int, run: bytes = RUN) -> bytes:
    buffer = memoryview(bytearray(blocks_of(record_size(entries))))
    assert write_record(buffer, run, sequence, entries) == record_size(entries)
    return bytes(buffer)


def journal_of(content: bytes, rounds: list[Round], run: bytes = RUN) -> bytes:
    """The file in which those rounds are, of a log whose segment has `content`."""
    made = encode_head(JournalHead(run, 0)) + bytes(BLOCK_BYTES)
    for number, (begin, end, base, topic_id) in enumerate(rounds):
        entry = JournalEntry(topic_id, 0, "orders", base, begin, content[begin:end])
        made += record_of([entry], number, run)
    return made + bytes(8 * BLOCK_BYTES)


class Crashed:
    """A log of ten records, three of them below its snapshot, as a crash left it: without what was
    in the journal alone. `ends` are the bytes behind each record.
    """

    def __init__(self, disk: FaultyDisk, content: bytes, ends: list[int]) -> None:
        self.disk = disk
        self.content = content
        self.ends = ends

    def lose(self, size: int) -> None:
        """All but the first `size` bytes of the log's file."""
        (self.disk.root / FIRST_LOG).write_bytes(self.content[:size])

    def write(self, rounds: list[Round], run: bytes = RUN) -> None:
        (self.disk.root / FILE).write_bytes(journal_of(self.content, rounds, run))

    def rounds(self, first: int, last: int) -> list[Round]:
        """One for each record in [first, last)."""
        return [Round(self.ends[each], self.ends[each + 1]) for each in range(first, last)]

    @property
    def log(self) -> bytes:
        return (self.disk.root / FIRST_LOG).read_bytes()

    @property
    def head(self) -> JournalHead | None:
        return read_heads((self.disk.root / FILE).read_bytes()[:FIRST_RECORD]).head

    async def recover(self) -> list[str]:
        """What a start finds."""
        log = await reopen(self.disk, WHOLE)
        found = await values(log)
        assert log.damage == []
        await log.close()
        return found
