"""Capacity sums: how long a queue waits, how many partitions and workers, how many bytes on disk.

Pure and exact: rates are messages a second as fractions, times are seconds, sizes are bytes;
nothing is rounded before the end. Raises PlanError for a question that has no answer.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

DAY_S: Final = 86_400
PARTITION_BYTES_PER_S: Final = Fraction(10_000_000)
"""What one partition takes without a thought; measure before you rely on more."""
HEADROOM: Final = Fraction(1, 4)
"""Growth that a number of partitions should have room for, as a share: adding some later moves keys
to other partitions.
"""


class PlanError(ValueError):
    """The question makes no sense; the text says which number to change."""


class Backlog(NamedTuple):
    """What a rush does to a queue. Counts are messages, times seconds.

    `drain_s` counts from the rush's end and `empty_s` from its beginning; None when the queue never
    drains. `growth` is what it then gains a second. `wait_s` is the longest that a message of the
    rush, or before it, waits.
    """

    peak_count: Fraction
    end_count: Fraction
    wait_s: Fraction
    drain_s: Fraction | None
    empty_s: Fraction | None
    growth: Fraction


def plan_backlog(
    *,
    rush_rate: Fraction,
    rush_s: Fraction,
    capacity: Fraction,
    then_rate: Fraction,
    waiting_count: Fraction = Fraction(0),
) -> Backlog:
    """A queue, served in order, that holds `waiting_count`, gets `rush_rate` for `rush_s`, and
    `then_rate` afterwards, while its workers finish `capacity`.

    After the rush `end = max(0, waiting + (rush - capacity) · rush_s)` wait. The queue grows or
    shrinks steadily, so `peak = max(waiting, end)` and the longest wait is `peak / capacity`. It
    drains in `end / (capacity - then)` if the workers are faster, else never. What waits already
    may be gone before the rush is over: after `waiting / (capacity - rush)`.
    """
    if capacity <= 0:
        raise PlanError("workers that finish nothing never empty a queue: capacity must be above 0")
    end_count = max(Fraction(0), waiting_count + (rush_rate - capacity) * rush_s)
    peak_count = max(waiting_count, end_count)
    growth = max(Fraction(0), then_rate - capacity)
    drain_s: Fraction | None
    if end_count == 0:
        drain_s = Fraction(0) if growth == 0 else None
    else:
        drain_s = end_count / (capacity - then_rate) if capacity > then_rate else None
    empty_s = None if drain_s is None else rush_s + drain_s
    if end_count == 0 and drain_s is not None:
        empty_s = waiting_count / (capacity - rush_rate) if waiting_count else Fraction(0)
    return Backlog(peak_count, end_count, peak_count / capacity, drain_s, empty_s, growth)


class Partitions(NamedTuple):
    """How many workers and partitions a rate needs. Rates are messages a second.

    `capacity` is what `partition_count` partitions get done, `spare` the rate below it (negative:
    the queue grows). Both are None without a number of partitions to judge.
    """

    worker_count: int
    byte_floor: int
    needed_count: int
    suggested_count: int
    capacity: Fraction | None
    spare: Fraction | None
    limit: str


def plan_partitions(
    *,
    rate: Fraction,
    worker_rate: Fraction,
    message_bytes: Fraction,
    partition_bytes_per_s: Fraction = PARTITION_BYTES_PER_S,
    headroom: Fraction = HEADROOM,
    downstream_rate: Fraction | None = None,
    partition_count: int | None = None,
) -> Partitions:
    """Workers of one group for `rate`, each finishing `worker_rate`, and the partitions for them.

    `workers = ⌈rate / worker_rate⌉`; a partition is read by at most one of them. The byte floor is
    `⌈rate · message_bytes / partition_bytes_per_s⌉`. Needed is the larger of the two; suggested the
    next power of two with `headroom`. P partitions get `min(P, workers) · worker_rate` done, and no
    more than `downstream_rate`, which no number of workers changes.
    """
    if worker_rate <= 0:
        raise PlanError("a worker that finishes nothing needs no plan: its rate must be above 0")
    if partition_bytes_per_s <= 0:
        raise PlanError("a partition that takes no bytes takes no messages: give a rate above 0")
    worker_count = max(1, ceil(rate / worker_rate))
    byte_floor = max(1, ceil(rate * message_bytes / partition_bytes_per_s))
    needed_count = max(worker_count, byte_floor)
    capacity = spare = None
    limit = ""
    if partition_count is not None:
        capacity = min(partition_count, worker_count) * worker_rate
        limit = "partitions" if partition_count < worker_count else "workers"
        if downstream_rate is not None and downstream_rate < capacity:
            capacity, limit = downstream_rate, "downstream"
        if message_bytes and partition_count * partition_bytes_per_s / message_bytes < capacity:
            capacity = partition_count * partition_bytes_per_s / message_bytes
            limit = "bytes"
        spare = capacity - rate
    return Partitions(
        worker_count,
        byte_floor,
        needed_count,
        next_power_of_two(needed_count * (1 + headroom)),
        capacity,
        spare,
        limit,
    )


def next_power_of_two(least: Fraction) -> int:
    """The smallest 1, 2, 4 … that is not below `least`."""
    return 1 << max(0, ceil(least) - 1).bit_length()


class Storage(NamedTuple):
    """What a stream keeps on disk and brings over the network. Bytes unless a name says otherwise;
    `partition_*` is one copy of one partition.
    """

    messages_per_day: Fraction
    bytes_per_s: Fraction
    bytes_per_day: Fraction
    one_copy_bytes: Fraction
    all_copies_bytes: Fraction
    partition_rate: Fraction
    partition_bytes_per_day: Fraction
    partition_bytes: Fraction
    broker_bytes: Fraction


def plan_storage(
    *,
    rate: Fraction,
    message_bytes: Fraction,
    retention_s: Fraction,
    replica_count: int,
    partition_count: int,
    broker_count: int,
    compression: Fraction = Fraction(1),
) -> Storage:
    """`rate` messages of `message_bytes`, kept for `retention_s` in `replica_count` copies.

    `bytes_per_s = rate · message_bytes / compression`, a day has 86,400 s,
    `one copy = bytes_per_s · retention_s`, `all copies = one copy · replicas`; a partition has
    `1 / partitions` of one copy and a broker `1 / brokers` of all.
    """
    if compression <= 0:
        raise PlanError("a compression of 0 leaves nothing: write 4 when 4 KB become 1 KB")
    if replica_count > broker_count:
        raise PlanError(
            f"{replica_count} copies need {replica_count} brokers, found {broker_count}: "
            "a broker holds at most one copy of a partition"
        )
    bytes_per_s = rate * message_bytes / compression
    one_copy_bytes = bytes_per_s * retention_s
    all_copies_bytes = one_copy_bytes * replica_count
    return Storage(
        messages_per_day=rate * DAY_S,
        bytes_per_s=bytes_per_s,
        bytes_per_day=bytes_per_s * DAY_S,
        one_copy_bytes=one_copy_bytes,
        all_copies_bytes=all_copies_bytes,
        partition_rate=rate / partition_count,
        partition_bytes_per_day=bytes_per_s * DAY_S / partition_count,
        partition_bytes=one_copy_bytes / partition_count,
        broker_bytes=all_copies_bytes / broker_count,
    )
