"""`hermes plan`: the sums of broker.planning, asked and answered in a terminal."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from broker.commands.context import Context, Refused
from broker.commands.quantities import show_clock, show_count, show_rate, show_size, show_span
from broker.commands.text import plural
from broker.planning import (
    PlanError,
    plan_backlog,
    plan_partitions,
    plan_storage,
)

_HEADING: Final = ("QUANTITY", "VALUE", "HOW")
REPLICAS: Final = 3
"""Copies of every record where nobody says how many: a cluster's usual number."""
_LIMITS: Final = {
    "partitions": "one worker of a group for each partition",
    "workers": "every worker has a partition",
    "downstream": "what the workers write to, whatever their number",
    "bytes": "what the partitions take in bytes",
}


async def backlog(context: Context) -> int:
    options = context.options
    then_rate = Fraction(0) if options.then is None else options.then
    try:
        plan = plan_backlog(
            rush_rate=options.rate,
            rush_s=options.span,
            capacity=options.capacity,
            then_rate=then_rate,
            waiting_count=Fraction(options.waiting),
        )
    except PlanError as error:
        raise Refused(str(error)) from error
    peak_bytes = None if options.size is None else plan.peak_count * options.size
    context.terminal.item(
        peak_messages=whole(plan.peak_count),
        messages_after_rush=whole(plan.end_count),
        peak_bytes=None if peak_bytes is None else whole(peak_bytes),
        longest_wait_s=decimal(plan.wait_s),
        drain_s=None if plan.drain_s is None else decimal(plan.drain_s),
        empty_s=None if plan.empty_s is None else decimal(plan.empty_s),
        growth_per_s=decimal(plan.growth),
    )
    rows = [
        ("waiting at most", plural_of(plan.peak_count), "what arrives less what is finished"),
        ("longest wait", show_span(plan.wait_s), "what waits / capacity"),
    ]
    if peak_bytes is not None:
        rows.insert(1, ("", show_size(peak_bytes), "that many times the size"))
    if plan.drain_s is not None and plan.empty_s is not None:
        words = "what waits after the rush / (capacity - then)"
        rows.append(("drained after the rush in", show_span(plan.drain_s), words))
        rows.append(("empty", show_span(plan.empty_s), "from the rush's beginning"))
    else:
        hourly = show_count(plan.growth * 3_600)
        how = (
            f"--then is more: {hourly} more wait every hour" if plan.growth else "--then is as much"
        )
        rows.append(("drained", "never", how))
    context.terminal.table(_HEADING, rows)
    return 0


async def partitions(context: Context) -> int:
    options = context.options
    try:
        plan = plan_partitions(
            rate=options.rate,
            worker_rate=options.worker,
            message_bytes=options.size,
            partition_bytes_per_s=options.partition_rate,
            headroom=options.headroom,
            downstream_rate=options.downstream,
            partition_count=options.partitions,
        )
    except PlanError as error:
        raise Refused(str(error)) from error
    context.terminal.item(
        workers=plan.worker_count,
        byte_floor=plan.byte_floor,
        needed_partitions=plan.needed_count,
        suggested_partitions=plan.suggested_count,
        capacity_per_s=None if plan.capacity is None else decimal(plan.capacity),
        spare_per_s=None if plan.spare is None else decimal(plan.spare),
        limit=plan.limit or None,
    )
    rows = [
        ("workers", plural(plan.worker_count, "worker"), "rate / what one worker finishes"),
        ("byte floor", plural(plan.byte_floor, "partition"), "bytes a second / --partition-rate"),
        ("needed", plural(plan.needed_count, "partition"), "the larger of the two"),
        (
            "suggested",
            plural(plan.suggested_count, "partition"),
            f"the next power of two with {show_count(options.headroom * 100)}% to grow: more later "
            "would move keys",
        ),
    ]
    if plan.capacity is not None and plan.spare is not None:
        given = plural(options.partitions, "partition")
        rows.append((f"{given} finish", show_rate(plan.capacity), _LIMITS[plan.limit]))
        if plan.spare < 0:
            rows.append(("the queue grows by", show_rate(-plan.spare), "rate less that"))
    context.terminal.table(_HEADING, rows)
    downstream = options.downstream
    if downstream is not None and downstream < options.rate:
        context.terminal.say(
            f"Whatever the workers write to takes {show_rate(downstream)}, "
            f"{show_rate(options.rate - downstream)} too little: no number of workers helps."
        )
    return 0


async def storage(context: Context) -> int:
    options = context.options
    replicas = options.replicas or min(REPLICAS, options.brokers or REPLICAS)
    brokers = options.brokers or replicas
    try:
        plan = plan_storage(
            rate=options.rate,
            message_bytes=options.size,
            retention_s=options.retention,
            replica_count=replicas,
            partition_count=options.partitions,
            broker_count=brokers,
            compression=options.compression,
        )
    except PlanError as error:
        raise Refused(str(error)) from error
    context.terminal.item(
        **{name: decimal(value) for name, value in plan._asdict().items()},
        replicas=replicas,
        brokers=brokers,
    )
    copies = f"{replicas} copies" if replicas > 1 else "1 copy"
    copies += "" if options.replicas else ", assumed (--replicas N)"
    share_of = plural(brokers, "broker")
    share_of += "" if options.brokers else ", assumed: one for each copy (--brokers N)"
    share = plural(options.partitions, "partition")
    rows = [
        ("arrives", f"{show_size(plan.bytes_per_s)}/s", "rate x size"),
        ("", f"{show_size(plan.bytes_per_day)} a day", plural_of(plan.messages_per_day)),
        ("one copy", show_size(plan.one_copy_bytes), f"{show_clock(options.retention)} of it"),
        ("on all disks", show_size(plan.all_copies_bytes), copies),
        ("each broker", show_size(plan.broker_bytes), share_of),
        ("each partition", show_rate(plan.partition_rate), f"1 of {share}"),
        ("", f"{show_size(plan.partition_bytes_per_day)} a day", ""),
        ("", f"{show_size(plan.partition_bytes)} kept", "one copy"),
    ]
    context.terminal.table(_HEADING, rows)
    return 0


def plural_of(count: Fraction) -> str:
    """ "36,000 messages"."""
    return f"{show_count(count)} message{'' if count == 1 else 's'}"


def whole(number: Fraction) -> str:
    """A 64-bit number for JSON, rounded up."""
    return str(-(-number.numerator // number.denominator))


def decimal(number: Fraction) -> str:
    """A number for JSON as text: exact where it is whole, else with six digits after the point."""
    if number.denominator == 1:
        return str(number.numerator)
    return f"{float(number):.6f}".rstrip("0").rstrip(".")
