"""The leader-epoch history of a partition: which epoch began at which offset (KIP-101).

Not here: elections. Epochs and start offsets ascend strictly by epoch. The file is text: a version
line, a count line, then `epoch start_offset` per line, and a last line with the CRC-32C of all
before it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from broker.records.crc import crc32c

NO_EPOCH: Final = -1
_VERSION: Final = "1"


class LeaderEpochs:
    """Entries (epoch, start offset), ascending."""

    __slots__ = ("entries", "latest")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries = entries or []
        self.latest = self.entries[-1][0] if self.entries else NO_EPOCH

    def begin(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`; epochs that begin there or later without a record are
        replaced.
        """
        assert epoch >= self.latest, (
            f"leader epoch {epoch} is older than {self.latest}, which wrote already"
        )
        if epoch == self.latest:
            return
        kept = [entry for entry in self.entries if entry[1] < start_offset]
        self.entries = [*kept, (epoch, start_offset)]  # a new list: an undo may keep the old one
        self.latest = epoch

    def restore(self, entries: list[tuple[int, int]]) -> None:
        """Go back to entries as they were."""
        self.entries = entries
        self.latest = entries[-1][0] if entries else NO_EPOCH

    def truncate_to_offset(self, end_offset: int) -> None:
        """Drop epochs that began at or after `end_offset`."""
        self.restore([entry for entry in self.entries if entry[1] < end_offset])

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`, -1 when it is older than the history."""
        place = bisect_right(self.entries, offset, key=lambda entry: entry[1]) - 1
        return self.entries[place][0] if place >= 0 else NO_EPOCH

    def end_offset_for_epoch(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch up to `epoch`, its end offset), or (-1, -1) when unknown (KIP-320)."""
        place = bisect_right(self.entries, epoch, key=lambda entry: entry[0]) - 1
        if place < 0 or epoch > self.latest:
            return NO_EPOCH, -1
        end = self.entries[place + 1][1] if place + 1 < len(self.entries) else log_end_offset
        return self.entries[place][0], end


def encode_epochs(entries: list[tuple[int, int]]) -> bytes:
    """The leader-epoch file."""
    lines = [_VERSION, str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    text = "\n".join(lines) + "\n"
    return f"{text}{crc32c(text.encode()):08x}\n".encode()


def decode_epochs(content: bytes) -> list[tuple[int, int]] | None:
    """The entries of a leader-epoch file; None when it is damaged or of another version."""
    try:
        text = content.decode("ascii")
        body, crc = text[:-9], text[-9:-1]
        if int(crc, 16) != crc32c(body.encode()):
            return None
        version, count, *lines = body.splitlines()
        pairs = [line.split(" ") for line in lines]
        entries = [(int(epoch), int(start)) for epoch, start in pairs]
        return entries if version == _VERSION and int(count) == len(entries) else None
    except ValueError:
        return None
