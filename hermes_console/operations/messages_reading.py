"""Reading a page of messages from stored batches: windows of several partitions merged by time,
within a budget, either way.

Not here: what is asked for (`messages_query`), rights, connections. Batches come from a `Fetch`,
the clock is passed in. A lane is one partition's unread stretch. A message is handed out once, and
the positions left behind let the next page go on exactly there, whatever stopped this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from broker.client.batches import FetchedBatches
from broker.client.blocking import BrokerRefusal, ErrorCode
from hermes_console.fetching import Fetch
from hermes_console.operations.messages_query import Budget, Direction
from hermes_console.operations.messages_rows import Message, key_pattern, messages_of

WINDOW_BYTES: Final = 4 * 1024 * 1024
WINDOW_OFFSETS_MAX: Final = 200_000
FETCH_BYTES_MIN: Final = 64 * 1024
FETCH_BYTES_MAX: Final = 1024 * 1024
GROWTH: Final = 4


class Stop(StrEnum):
    """Why no more were read."""

    FULL = "full"
    END = "end"
    BYTES = "bytes"
    SECONDS = "seconds"


@dataclass(slots=True)
class Lane:
    """The unread offsets [low, high) of a partition, and messages read but not handed out, in the
    order of the direction. `window` is how many offsets to read next.
    """

    partition: int
    low: int
    high: int
    window: int
    ready: deque[Message] = field(default_factory=deque)
    read_bytes: int = 0
    read_offsets: int = 0

    @property
    def is_read(self) -> bool:
        return self.low >= self.high


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in reading order. `left` is per partition where the next page of this direction
    begins; `scanned` counts all that were looked at.
    """

    messages: list[Message]
    left: dict[int, int]
    stop: Stop
    scanned: int
    read_bytes: int


@dataclass(slots=True)
class _Part:
    """A window's messages so far, in order of offset; read to `position`, to be read to `end`. Its
    `start` moves down to the first offset of its first batch, which is opened anyway, but not below
    `floor`.
    """

    position: int
    end: int
    floor: int
    start: int = -1
    messages: list[Message] = field(default_factory=list)
    read_bytes: int = 0
    is_single: bool = False

    def __post_init__(self) -> None:
        self.start = self.position
        self.is_single = self.end - self.position <= 1

    @property
    def is_read(self) -> bool:
        return self.position >= self.end


@dataclass(slots=True)
class _Meter:
    """What was used of a budget."""

    budget: Budget
    clock_s: Callable[[], float]
    began_s: float
    scanned: int = 0
    read_bytes: int = 0

    def stop(self) -> Stop | None:
        if self.read_bytes >= self.budget.bytes:
            return Stop.BYTES
        if self.clock_s() - self.began_s >= self.budget.seconds:
            return Stop.SECONDS
        return None


def read_page(
    fetch: Fetch,
    ranges: Mapping[int, tuple[int, int]],
    direction: Direction,
    budget: Budget,
    *,
    key: bytes | None = None,
    clock_s: Callable[[], float],
) -> Page:
    """At most `budget.records` messages of the partitions' offsets [low, high), oldest or newest
    first by timestamp (in order of offset within a partition).

    Raises BrokerRefusal, and what `fetch` raises.
    """
    share = -(-2 * budget.records // max(1, len(ranges)))
    window = budget.records if len(ranges) == 1 else max(4, share)
    lanes = [Lane(partition, low, high, window) for partition, (low, high) in ranges.items()]
    meter = _Meter(budget, clock_s, clock_s())
    taken: list[Message] = []
    stop = Stop.END
    has_moved = False
    while True:  # every round moves a lane or ends; the budget's seconds bound them all
        empty = [lane for lane in lanes if not lane.ready and not lane.is_read]
        if not empty:
            taken += _take(lanes, direction, budget.records - len(taken), is_final=False)
            if len(taken) >= budget.records:
                stop = Stop.FULL
                break
            if all(lane.is_read and not lane.ready for lane in lanes):
                break
            continue
        reason = meter.stop()
        if reason is not None and has_moved:
            stop = reason
            taken += _take(lanes, direction, budget.records - len(taken), is_final=True)
            break
        if reason is not None:  # a page that shows nothing must not be the next one again
            empty = empty[:1]
            empty[0].window = 1
        has_moved = _fill(fetch, empty, direction, meter, key) or has_moved
    left = {lane.partition: _left(lane, direction) for lane in lanes}
    if stop is Stop.FULL and all(lane.is_read and not lane.ready for lane in lanes):
        stop = Stop.END
    return Page(taken, left, stop, meter.scanned, meter.read_bytes)


def _take(lanes: list[Lane], direction: Direction, count: int, *, is_final: bool) -> list[Message]:
    """Up to `count` messages in order of time, until a lane runs dry (`is_final`: all of them)."""
    taken: list[Message] = []
    while len(taken) < count:
        full = [lane for lane in lanes if lane.ready]
        if not full:
            break
        if direction is Direction.OLDER:
            lane = max(full, key=lambda one: (one.ready[0].timestamp_ms, one.partition))
        else:
            lane = min(full, key=lambda one: (one.ready[0].timestamp_ms, one.partition))
        taken.append(lane.ready.popleft())
        if not lane.ready and not lane.is_read and not is_final:
            break
    return taken


def _left(lane: Lane, direction: Direction) -> int:
    """Where the lane goes on: before (OLDER: exclusive) or at the first message not handed out."""
    if lane.ready:
        first = lane.ready[0].offset
        return first + 1 if direction is Direction.OLDER else first
    return lane.high if direction is Direction.OLDER else lane.low


def _fill(
    fetch: Fetch, lanes: Iterable[Lane], direction: Direction, meter: _Meter, key: bytes | None
) -> bool:
    """Read each lane's next window, all lanes in one fetch, as often as it takes. Returns whether
    any lane got on.
    """
    parts: dict[int, _Part] = {}
    by_partition = {lane.partition: lane for lane in lanes}
    for lane in by_partition.values():
        if direction is Direction.OLDER:
            start = max(lane.low, lane.high - lane.window)
            parts[lane.partition] = _Part(start, lane.high, lane.low)
        else:
            end = min(lane.high, lane.low + lane.window)
            parts[lane.partition] = _Part(lane.low, end, lane.low)
    _read_windows(fetch, parts, meter, key)
    has_moved = False
    for partition, part in parts.items():
        lane = by_partition[partition]
        if direction is Direction.NEWER:
            lane.ready.extend(part.messages)
            lane.low = part.position
        elif part.is_read:
            lane.ready.extend(reversed(part.messages))
            lane.high = part.start
        else:  # its newer end is missing: nothing of it can be handed out
            continue
        has_moved = has_moved or part.position > part.start
        _resize(lane, part.read_bytes, part.end - part.start, has_found=bool(part.messages))
    return has_moved


def _resize(lane: Lane, read_bytes: int, offsets: int, *, has_found: bool) -> None:
    lane.read_bytes += read_bytes
    lane.read_offsets += offsets
    bytes_per_offset = max(1.0, lane.read_bytes / max(1, lane.read_offsets))
    wanted = lane.window if has_found else lane.window * GROWTH
    lane.window = int(max(1, min(wanted, WINDOW_BYTES / bytes_per_offset, WINDOW_OFFSETS_MAX)))


def _read_windows(
    fetch: Fetch, parts: Mapping[int, _Part], meter: _Meter, key: bytes | None
) -> None:
    """Read the windows until all are read or the budget is used up. A window of one offset is read
    whatever the budget says.
    """
    pattern = None if key is None else key_pattern(key)
    pending: list[int] = list(parts)
    starved: list[int] = []
    while pending or starved:
        asked = pending or starved[:1]
        share = max(FETCH_BYTES_MIN, min(FETCH_BYTES_MAX, WINDOW_BYTES // len(asked)))
        answers = fetch({one: parts[one].position for one in asked}, share)
        for partition in asked:
            part = parts[partition]
            before = part.position
            answer = answers.get(partition)
            if answer is not None:
                _read_answer(answer, partition, part, meter, pattern, key)
            if part.position == before and len(asked) > 1:
                # A batch too large for its share of the answer: alone it comes whole.
                starved.append(partition)
            elif part.position == before:
                part.position = part.end  # nothing is stored up to there
        pending = [one for one in pending if one not in starved and not parts[one].is_read]
        starved = [one for one in starved if not parts[one].is_read]
        if meter.stop() is not None:
            pending = [one for one in pending if parts[one].is_single]
            starved = [one for one in starved if parts[one].is_single]


def _read_answer(
    answer: FetchedBatches | BrokerRefusal,
    partition: int,
    part: _Part,
    meter: _Meter,
    pattern: bytes | None,
    key: bytes | None,
) -> None:
    """Add to the part what the answer has for it, and move its position behind that."""
    if isinstance(answer, BrokerRefusal):
        if answer.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise answer
        part.position = part.end  # retention has passed this window
        return
    part.read_bytes += answer.size
    for batch in answer.batches():
        if batch.next_offset <= part.position:
            continue
        if batch.base_offset >= part.end:
            part.position = part.end
            return
        if part.position == part.start:
            part.position = part.start = max(part.floor, min(part.start, batch.base_offset))
        meter.scanned += batch.header.record_count
        if pattern is None:
            meter.read_bytes += len(batch.content)
            part.messages.extend(messages_of(batch, partition, part.position, part.end))
        else:
            unpacked = batch.unpacked()
            meter.read_bytes += max(len(batch.content), len(unpacked))
            if pattern in unpacked:
                part.messages.extend(
                    one
                    for one in messages_of(batch, partition, part.position, part.end)
                    if one.key == key and not one.control
                )
        part.position = min(batch.next_offset, part.end)
