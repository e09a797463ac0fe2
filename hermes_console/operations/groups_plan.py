"""Where a group would read on: targets, the move of each partition, what is skipped or read again.
Pure.

| place | after |
|---|---|
| earliest, latest | the partition's first offset, its end |
| offset | that offset, clamped to what exists |
| time | the first record at or after it; the end when nothing is that young |
| shift | the commit plus so many records, clamped; nothing without a commit |
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Any, Final, NamedTuple

from hermes_console.times import BadTime, read_time

PARTITIONS_MAX: Final = 20_000
PARTITION_INDEX_MAX: Final = 1_000_000
INT64_MAX: Final = 2**63 - 1
RANGE: Final = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
NO_COMMIT: Final = "no commit to shift from: left as it is"
BELOW_START: Final = "moved up to the first record that still exists"
ABOVE_END: Final = "moved back to the end"
NOTHING_THAT_YOUNG: Final = "no record is that young: the end"
COMMIT_WAS_BELOW_START: Final = "the commit lies below the first record: those in between are gone"
COMMIT_WAS_ABOVE_END: Final = "the commit lies beyond the end"


class BadTarget(ValueError):
    """What was asked for makes no sense; the message says what to give instead."""


class Place(StrEnum):
    """How the new offset is said."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


@dataclass(frozen=True, slots=True)
class Target:
    """`value`: the offset, milliseconds since 1970 UTC, or by how many records to shift; else 0."""

    place: Place
    value: int = 0


class Where(NamedTuple):
    """A partition."""

    topic: str
    partition: int


Selection = Mapping[str, tuple[int, ...] | None]
"""Topics and their partitions; None: all of them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One partition as it is now. `at_time` is the offset found for a time: None when none was
    asked for, -1 when no record is that young.
    """

    committed: int | None
    log_start: int
    end: int
    at_time: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """What would happen to one partition's commit. `before` None: there is none; `after` None: it
    stays without one, or is taken away by an undo.
    """

    topic: str
    partition: int
    before: int | None
    after: int | None
    log_start: int
    end: int
    note: str = ""

    @property
    def is_change(self) -> bool:
        return self.before != self.after

    @property
    def delta(self) -> int | None:
        """None when one of both is unknown."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before

    @property
    def skipped_count(self) -> int | None:
        """Records that exist and will not be read; None without a commit before."""
        if self.before is None or self.after is None:
            return None
        return max(0, self.after - clamp(self.before, self.log_start, self.end))

    @property
    def read_again_count(self) -> int | None:
        """Records that will be read once more; None without a commit before."""
        if self.before is None or self.after is None:
            return None
        return max(0, clamp(self.before, self.log_start, self.end) - self.after)

    @property
    def waiting_count(self) -> int | None:
        """The lag after the move."""
        return None if self.after is None else max(0, self.end - self.after)


class Totals(NamedTuple):
    """Over the partitions that change."""

    changed_count: int
    skipped_count: int
    read_again_count: int
    waiting_count: int


def clamp(offset: int, log_start: int, end: int) -> int:
    """The nearest offset in [log_start, end]."""
    return max(log_start, min(offset, end))


def plan_move(where: Where, facts: Facts, target: Target) -> Move:
    """The table above, for one partition."""
    wanted, note = _wanted(facts, target)
    after = None if wanted is None else clamp(wanted, facts.log_start, facts.end)
    notes = [note] if note else []
    if wanted is not None and wanted < facts.log_start:
        notes.append(BELOW_START)
    elif wanted is not None and wanted > facts.end:
        notes.append(ABOVE_END)
    if facts.committed is not None and facts.committed < facts.log_start:
        notes.append(COMMIT_WAS_BELOW_START)
    elif facts.committed is not None and facts.committed > facts.end:
        notes.append(COMMIT_WAS_ABOVE_END)
    before = facts.committed
    if after is None and before is not None:
        after = before
    return Move(*where, before, after, facts.log_start, facts.end, "; ".join(notes))


def _wanted(facts: Facts, target: Target) -> tuple[int | None, str]:
    """The offset before clamping (None: leave it) and a note."""
    match target.place:
        case Place.EARLIEST:
            return facts.log_start, ""
        case Place.LATEST:
            return facts.end, ""
        case Place.OFFSET:
            return target.value, ""
        case Place.TIME:
            if facts.at_time is None or facts.at_time < 0:
                return facts.end, NOTHING_THAT_YOUNG
            return facts.at_time, ""
        case Place.SHIFT:
            if facts.committed is None:
                return None, NO_COMMIT
            return facts.committed + target.value, ""


def totals(moves: Iterable[Move]) -> Totals:
    """Sums over the moves that change something."""
    changed = [move for move in moves if move.is_change]
    return Totals(
        len(changed),
        sum(move.skipped_count or 0 for move in changed),
        sum(move.read_again_count or 0 for move in changed),
        sum(move.waiting_count or 0 for move in changed),
    )


def make_token(group: str, topic_ids: Mapping[str, str], commits: Mapping[Where, int]) -> str:
    """What a preview was made from, as 32 hexadecimal digits: the group's commits in the selected
    topics and these topics' ids. It changes with any of them.
    """
    rows = [[*where, str(offset)] for where, offset in sorted(commits.items())]
    text = json.dumps([group, sorted(topic_ids.items()), rows], separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_target(place: str, value: str, zone: tzinfo = UTC) -> Target:
    """The target that a form or an API call names. Raises BadTarget.

    `value` is an offset, a time or a number of records, by `place`; a time without a zone is one
    of `zone`.
    """
    try:
        kind = Place(place)
    except ValueError:
        raise BadTarget(f"Choose where to go: {', '.join(Place)}.") from None
    text = value.strip()
    if kind in {Place.EARLIEST, Place.LATEST}:
        return Target(kind)
    if kind is Place.TIME:
        try:
            return Target(kind, read_time(text, zone))
        except BadTime as error:
            raise BadTarget(str(error)) from None
    sign = r"[+\-−]?" if kind is Place.SHIFT else ""
    if not re.fullmatch(sign + r"\d{1,19}", text, re.ASCII):
        wanted = "a whole number, below 0 to go back" if sign else "an offset, 0 or more"
        raise BadTarget(f"Give {wanted}.")
    number = int(text.replace("−", "-"))
    if abs(number) > INT64_MAX:
        raise BadTarget("That number is larger than any offset can be.")
    return Target(kind, number)


def read_partitions(text: str) -> tuple[int, ...] | None:
    """`0-3, 7` → (0, 1, 2, 3, 7); empty or `all` → None, all of them. Raises BadTarget."""
    if text.strip().lower() in {"", "all", "*"}:
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > PARTITION_INDEX_MAX or last - first >= PARTITIONS_MAX:
            raise BadTarget(f"Give partitions as 0-3,7 or all; {part.strip()[:40]!r} is neither.")
        found.update(range(first, last + 1))
        if len(found) > PARTITIONS_MAX:
            raise BadTarget(f"At most {PARTITIONS_MAX:,} partitions at once.")
    return tuple(sorted(found))


def moves_text(moves: Sequence[Move]) -> str:
    """Moves as JSON text for the database; offsets are text in it."""
    return json.dumps(
        [[one.topic, one.partition, _text(one.before), _text(one.after)] for one in moves],
        separators=(",", ":"),
    )


def read_moves(text: str) -> list[tuple[Where, int | None, int | None]]:
    """[(where, before, after), …] of `moves_text`."""
    rows: list[list[Any]] = json.loads(text)
    return [(Where(row[0], row[1]), _number(row[2]), _number(row[3])) for row in rows]


def offsets_json(moves: Iterable[Move], side: str) -> dict[str, str | None]:
    """`topic-partition` → the offset of `side` ("before" or "after") as text; for the audit."""
    return {f"{one.topic}-{one.partition}": _text(getattr(one, side)) for one in moves}


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _number(value: str | None) -> int | None:
    return None if value is None else int(value)
