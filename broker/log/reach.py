"""What of a log a read may see, and what it asks the disk for."""

from __future__ import annotations

from typing import NamedTuple

from broker.log.epochs import LeaderEpochs
from broker.log.segment import Segment


class Want(NamedTuple):
    """Bytes to read; `size` 0 asks for the segment's index."""

    segment: Segment
    position: int
    size: int


class Reach(NamedTuple):
    """What of the log may be read. `segments` ascend; the end offset and size bound the last one.
    `is_gapless`: nothing was ever compacted, each batch begins where the one before it ended.
    """

    segments: list[Segment]
    written_end_offset: int
    written_size: int
    is_gapless: bool
    epochs: LeaderEpochs
