"""What compaction does to batches: calls for the worker process, bytes in, bytes out.

Not here: files, and when to run. The worker keeps what one run knows (`Run`: newest offsets, fates
of transactions) between calls; a worker that was started anew has lost it and says so, and nothing
was harmed. Tombstones and markers stay for `delete.retention.ms` after the run that first had no
more to do for them: their batch gets a delete horizon (KIP-534) in its base timestamp, so clients'
timestamps do not matter (KAFKA-4529).
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from broker.errors import Refusal
from broker.log.fates import OTHER_MARKER, Fate, Fates, marker_of
from broker.log.key_map import KeyMap, digest_of
from broker.log.repack import emptied, rebuilt
from broker.model import NO_TIMESTAMP
from broker.ports import WorkerFault
from broker.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    is_intact,
    read_header,
)
from broker.records.iterate import RawRecord, iterate_batches, iterate_raw, open_to_search

RUNS_MAX: Final = 4
"""Runs that the worker remembers; the oldest, which nobody ended, goes."""


class Terms(NamedTuple):
    """How one pass cleans. Records from `end_offset` on are not touched. `last_offsets` (int64
    array, ascending): batches that end there stay, if need be without records.
    """

    end_offset: int
    now_wall_ms: int
    delete_retention_ms: int
    last_offsets: bytes


class Span(NamedTuple):
    """The offsets that a slice may hold. What is outside them, or out of order, was not written
    there: the CRC does not cover a batch's base offset.
    """

    first_offset: int
    end_offset: int


class Survey(NamedTuple):
    """What was seen up to `next_offset`. `first_open_offset` of the transactions without a marker
    so far, -1 when there is none; `is_full`: use what is known before more is read.
    """

    is_sound: bool
    next_offset: int
    first_open_offset: int
    is_full: bool


class Noted(NamedTuple):
    """Keys of the slice's records below `end_offset` are in the map; `is_full`: it took no more. Of
    a slice that is not sound none are.
    """

    end_offset: int
    is_full: bool
    is_sound: bool = True


class Rewritten(NamedTuple):
    """What is left of a slice; None: all of it, as it is. `is_opaque`: a batch in it could not be
    opened, so it is kept, and deletions of what it may hold are kept behind it.
    """

    is_sound: bool
    content: bytes | None
    is_opaque: bool


class Run:
    """One cleaning of one partition, which reads the log from the oldest batch on, once a pass."""

    __slots__ = (
        "fates",
        "has_data",
        "is_behind_damage",
        "key_map",
        "last_offsets",
        "next_ms",
        "terms",
    )

    def __init__(self) -> None:
        self.fates = Fates()
        self.key_map = KeyMap(1)
        self.begin(Terms(0, 0, 0, b""))

    def begin(self, terms: Terms) -> None:
        """The next batch to be rewritten is the log's first."""
        self.terms = terms
        self.last_offsets = frozenset(array("q", terms.last_offsets))
        self.has_data: set[int] = set()
        """Producers of whose transaction a batch was seen since their last marker."""
        self.is_behind_damage = False
        self.next_ms = NO_TIMESTAMP
        """When the first of what now waits for its horizon may go, -1 when nothing waits."""

    def wait_until(self, horizon_ms: int) -> None:
        """Something stays until then."""
        if not 0 <= self.next_ms <= horizon_ms:
            self.next_ms = horizon_ms


_RUNS: Final[dict[int, Run]] = {}


def begin_run(run_id: int) -> None:
    """Remember a new run."""
    while len(_RUNS) >= RUNS_MAX:
        del _RUNS[next(iter(_RUNS))]
    _RUNS[run_id] = Run()


def end_run(run_id: int) -> int:
    """Forget it; when there is more to remove even if nothing is written, -1 for never."""
    next_ms = _run(run_id).next_ms
    del _RUNS[run_id]
    return next_ms


def begin_keys(run_id: int, capacity: int) -> None:
    """An empty map for the next pass."""
    run = _run(run_id)
    run.key_map = KeyMap(1)  # the old one goes before there is another
    run.key_map = KeyMap(capacity)


def begin_rewriting(run_id: int, terms: Terms) -> None:
    """The map is complete; the calls of `rewrite` follow in the log's order."""
    _run(run_id).begin(terms)


def lose_sight(run_id: int, end_offset: int) -> None:
    """A part of the log up to `end_offset` is left out of the survey because it is damaged."""
    _run(run_id).fates.lose_sight(end_offset)


def pass_damage(run_id: int) -> None:
    """A part of the log is left out of the rewriting because it is damaged."""
    _run(run_id).is_behind_damage = True


def survey(
    run_id: int, content: bytes, span: Span, end_offset: int, sight_end_offset: int
) -> Survey:
    """Check the batches of a slice and note how transactions end. Data from `end_offset` on opens
    none, and what is at or beyond `sight_end_offset` is not looked at.
    """
    fates = _run(run_id).fates
    batches = _sound_batches(content, span)
    if batches is None:
        return Survey(is_sound=False, next_offset=-1, first_open_offset=-1, is_full=False)
    next_offset = 0
    for batch in batches:
        header = read_header(batch)
        next_offset = header.next_offset
        if header.base_offset >= sight_end_offset:
            break
        if header.base_offset < end_offset or header.attributes & CONTROL_BIT:
            fates.note(batch, header)
    return Survey(
        is_sound=True,
        next_offset=next_offset,
        first_open_offset=min(fates.open_offsets.values(), default=-1),
        is_full=fates.is_full,
    )


def note_keys(run_id: int, content: bytes, span: Span, start_offset: int, end_offset: int) -> Noted:
    """Check the batches of a slice once more, and enter the keys of its records in [start, end) in
    the map, until it is full.
    """
    run = _run(run_id)
    put = run.key_map.put
    batches = _sound_batches(content, span)
    if batches is None:
        return Noted(end_offset, is_full=False, is_sound=False)
    for batch in batches:
        header = read_header(batch)
        if header.base_offset >= end_offset:
            break
        opened = None if _fate(run, header) is not Fate.COMMITTED else _open(batch)
        if opened is None or header.last_offset < start_offset:
            continue
        _, records = opened
        for raw in records:
            offset = header.base_offset + raw.offset_delta
            if not start_offset <= offset < end_offset or raw.key is None:
                continue
            if not put(digest_of(raw.key), offset):
                # A batch is left to the next pass whole, unless it alone is too much for one.
                is_first = header.base_offset <= start_offset
                return Noted(offset if is_first else header.base_offset, is_full=True)
    return Noted(end_offset, is_full=False)


def rewrite(run_id: int, content: bytes, span: Span) -> Rewritten:
    """What the pass leaves of the log's next slice."""
    run = _run(run_id)
    batches = _sound_batches(content, span)
    if batches is None:
        return Rewritten(is_sound=False, content=None, is_opaque=False)
    parts: list[bytes | bytearray | memoryview] = []
    is_changed = is_opaque = False
    for batch in batches:
        header = read_header(batch)
        left: bytes | bytearray | memoryview | None = batch
        if header.base_offset < run.terms.end_offset:
            if header.record_count == 0:
                left = batch if _must_stay(run, header) else None
            elif header.attributes & CONTROL_BIT:
                left = _marker(run, header, batch)
            else:
                left, is_closed = _data(run, header, batch)
                is_opaque |= is_closed
        is_changed |= left is not batch
        if left is not None:
            parts.append(left)
    left_over = b"".join(parts) if is_changed else None
    return Rewritten(is_sound=True, content=left_over, is_opaque=is_opaque)


def _run(run_id: int) -> Run:
    run = _RUNS.get(run_id)
    if run is None:
        msg = "the worker process was started anew and has lost what it knew of this cleaning"
        raise WorkerFault(msg)
    return run


def _sound_batches(content: bytes, span: Span) -> list[memoryview] | None:
    """The whole batches that `content` consists of; None when a byte of it is not as written."""
    try:
        batches = list(iterate_batches(content))
    except Refusal:
        return None
    if sum(map(len, batches)) != len(content) or not all(map(is_intact, batches)):
        return None
    next_offset, end_offset = span
    for header in map(read_header, batches):
        if not next_offset <= header.base_offset <= header.last_offset < end_offset:
            return None
        next_offset = header.next_offset
    return batches


def _open(batch: memoryview) -> tuple[bytes, list[RawRecord]] | None:
    """(unpacked records, their coordinates); None for what cannot be opened, and for markers."""
    if read_header(batch).attributes & CONTROL_BIT:
        return None
    try:
        header, payload = open_to_search(batch)
        return payload, list(iterate_raw(payload, header))
    except Refusal:
        return None


def _fate(run: Run, header: BatchHeader) -> Fate:
    if not header.attributes & TRANSACTIONAL_BIT or header.attributes & CONTROL_BIT:
        return Fate.COMMITTED
    return run.fates.of(header)


def _must_stay(run: Run, header: BatchHeader) -> bool:
    """Whether the batch says something even without a record: its producer's last sequence, or
    where the log's closed part ends.
    """
    return header.last_offset in run.last_offsets


def _data(
    run: Run, header: BatchHeader, batch: memoryview
) -> tuple[bytearray | memoryview | None, bool]:
    """(what is left of a batch with records, whether it could not be opened)."""
    if header.attributes & TRANSACTIONAL_BIT:
        run.has_data.add(header.producer_id)
    fate = _fate(run, header)
    if fate is Fate.ABORTED:
        return emptied(header) if _must_stay(run, header) else None, False
    opened = None if fate is Fate.UNDECIDED else _open(batch)
    if opened is None:
        run.is_behind_damage = True
        return batch, fate is not Fate.UNDECIDED
    payload, records = opened
    kept = _surviving(run, header, records)
    terms = run.terms
    needs_horizon = (
        not header.attributes & DELETE_HORIZON_BIT
        and not run.is_behind_damage
        and header.last_offset < terms.end_offset
        and any(raw.is_tombstone for raw in kept)
    )
    if len(kept) == len(records) and not needs_horizon:
        return batch, False
    if not kept:
        return emptied(header) if _must_stay(run, header) else None, False
    horizon_ms = None
    if needs_horizon:
        horizon_ms = terms.now_wall_ms + terms.delete_retention_ms
        run.wait_until(horizon_ms)
    return rebuilt(header, payload, kept, horizon_ms), False


def _surviving(run: Run, header: BatchHeader, records: list[RawRecord]) -> list[RawRecord]:
    """The records of a batch that are the newest of their key (one without a key is of no use in a
    compacted log), without tombstones whose time is over.
    """
    end_offset = run.terms.end_offset
    newest = run.key_map.newest
    base_offset = header.base_offset
    is_over = _is_over(run, header)
    return [
        raw
        for raw in records
        if base_offset + raw.offset_delta >= end_offset
        or (
            raw.key is not None
            and not (raw.is_tombstone and is_over)
            and newest(digest_of(raw.key)) <= base_offset + raw.offset_delta
        )
    ]


def _is_over(run: Run, header: BatchHeader) -> bool:
    """Whether the batch's delete horizon has passed. Not behind what could not be read: older
    values there would come back.
    """
    if not header.attributes & DELETE_HORIZON_BIT or run.is_behind_damage:
        return False
    if run.terms.now_wall_ms < header.base_timestamp:
        run.wait_until(header.base_timestamp)
        return False
    return True


def _marker(run: Run, header: BatchHeader, batch: memoryview) -> bytearray | memoryview | None:
    """What is left of a control batch: all of it while a batch of its transaction is left, then for
    `delete.retention.ms`.
    """
    if marker_of(batch) == OTHER_MARKER:
        return batch
    has_data = header.producer_id in run.has_data
    run.has_data.discard(header.producer_id)
    if has_data or run.is_behind_damage:
        return batch
    if _is_over(run, header):
        return emptied(header) if _must_stay(run, header) else None
    if header.attributes & DELETE_HORIZON_BIT:
        return batch
    opened = open_to_search(batch)
    horizon_ms = run.terms.now_wall_ms + run.terms.delete_retention_ms
    run.wait_until(horizon_ms)
    return rebuilt(header, opened[1], list(iterate_raw(opened[1], header)), horizon_ms)
