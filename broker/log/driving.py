"""Carrying out the plan of a read (`reading`): warm on the loop, never waiting, or cold off it.

Not here: where the batches lie. A segment that is replaced under a read begins it again, and so
does damage, which is looked at first: bytes that are not what was written, or that the device does
not give.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.log.damage import Damaged
from broker.log.reach import Want
from broker.log.reading import ReadResult
from broker.log.survey import survey
from broker.ports import DiskFault, NoDescriptor, ReadFault
from broker.records.batch import HEADER_BYTES, MAGIC

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog
    from broker.log.segment import Segment

READ_ATTEMPTS_MAX: Final = 4
"""How often a read begins again because a segment was replaced under it, or damage was met."""
_FIRST: Final = Struct(">qiiB")
"""Base offset, length, leader epoch and magic of a batch."""
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame


def read_on(log: PartitionLog, offset: int, max_bytes: int, end_offset: int) -> ReadResult | None:
    """What `read_warm` would give a reader that goes on where one ended before and takes all there
    is: both places are known, so nothing is looked for. None for every other read, and for one
    that meets anything unusual.
    """
    known, active, end = log.positions, log.segments[-1], log.written_end_offset
    start, stop = known.places.get(offset), None
    if end_offset < end:
        stop, end = known.ends.get(end_offset) or known.places.get(end_offset), end_offset
    elif log.log_end_offset == end:  # else the segment's size counts what is staged
        stop = active, active.size
    if start is None or stop is None or log.offline_reason or offset < log.log_start_offset:
        return None
    segment, position = start
    size = stop[1] - position
    if (
        not (segment is active is stop[0])
        or segment.damaged
        or position < segment.unchecked_below
        or not HEADER_BYTES <= size <= max_bytes
    ):
        return None
    try:
        content = segment.file().read(position, size)
    except (DiskFault, FileNotFoundError):
        return None  # the usual way says so
    if content is None or len(content) < size:
        return None
    first, _, _, magic = _FIRST.unpack_from(content)
    if first != offset or magic != MAGIC:
        return None
    known.remember(end, segment, stop[1])
    return _new(ReadResult, (memoryview(content), end))


def read_warm(log: PartitionLog, plan: Generator[Want, bytes, ReadResult]) -> ReadResult | None:
    """As `PartitionLog.read`."""
    try:
        want = next(plan)
        while want.size and (want.segment is log.active or want.segment.is_open):
            content = want.segment.file().read(want.position, want.size)
            if content is None:
                break
            want = plan.send(content)
    except StopIteration as done:
        result: ReadResult = done.value
        return result
    except (Damaged, ReadFault):
        return None  # how far it reaches is looked for off the loop
    except (DiskFault, FileNotFoundError, Refusal) as fault:
        raise refused(log, fault) from fault
    plan.close()
    return None


async def read_cold(
    log: PartitionLog, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
) -> ReadResult:
    """As `PartitionLog.read_cold`."""
    for _ in range(READ_ATTEMPTS_MAX):
        plan = log.plan(offset, max_bytes, end_offset, at_least_one=at_least_one)
        want = None
        try:
            want = next(plan)
            while True:
                if want.segment is not log.active:
                    log.open_segments.touch(want.segment)
                if want.size:
                    want = plan.send(await take(*want))
                else:
                    await log.load_index(want.segment)
                    want = plan.send(b"")
        except StopIteration as done:
            result: ReadResult = done.value
            return result
        except Damaged as met:
            await survey_met(log, met)
        except NoDescriptor:
            log.open_segments.make_room()
        except (DiskFault, FileNotFoundError, Refusal) as fault:
            if want is None or want.segment in log.segments:
                raise refused(log, fault) from fault
    raise Refusal(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"segments of {log.directory} are being replaced or repaired, or no more files can be "
        "opened: read again",
    )


async def take(segment: Segment, position: int, size: int) -> bytes:
    """As `Segment.read_cold`; what the device does not give is Damaged."""
    try:
        return await segment.read_cold(position, size)
    except ReadFault as fault:
        reason = f"it cannot be read: {fault.reason}"
        raise Damaged(segment, position, reason, size) from fault


async def survey_met(log: PartitionLog, met: Damaged) -> None:
    """Afterwards the damage is known, and what met it begins again with that. Raises Refusal when
    the disk does not say.
    """
    if met.segment not in log.segments or log.offline_reason:  # closed: its files may be going
        return
    try:
        await survey(log, met.segment, met.position, met.size)
    except (DiskFault, FileNotFoundError) as fault:
        if met.segment in log.segments:
            raise refused(log, fault) from fault


def refused(log: PartitionLog, fault: DiskFault | FileNotFoundError | Refusal) -> Refusal:
    """What a reader hears of `fault`; what was found broken is noted in the log's `damage`. Not
    once the log is closed: its files may be going, and nothing is wrong with the disk.
    """
    if log.offline_reason:
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_reason)
    if isinstance(fault, Refusal):
        if fault.code == ErrorCode.KAFKA_STORAGE_ERROR or isinstance(fault, Damaged):
            log.note_damage(fault.message)
        return fault
    if isinstance(fault, NoDescriptor):
        log.open_segments.make_room()
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
    reason = (
        f"{fault}" if isinstance(fault, DiskFault) else f"a segment of {log.directory} is missing"
    )
    log.note_damage(reason)
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, reason)
