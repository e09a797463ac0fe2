"""`hermes topics list` and `describe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.client import admin, admin_configs, admin_partitions
from broker.client.admin_configs import ConfigEntry, ConfigResource, ResourceKind
from broker.client.cluster import PartitionView, TopicView
from broker.client.failure import BrokerRefusal, ClientError
from broker.client.windows import WindowCounts, count_window, has_window
from broker.commands import text
from broker.commands.context import Context, matching
from broker.commands.terminal import int64
from broker.model import TopicPartition

TOPIC_SOURCE: Final = 1


class Sizes(NamedTuple):
    """What is known about a partition beyond its metadata; None is unknown."""

    start: int | None
    end: int | None
    size_bytes: int | None
    window: WindowCounts | None = None
    """None where no delivery window hides anything."""


async def list_topics(context: Context) -> int:
    options, terminal = context.options, context.terminal
    views = await admin.list_topics(context.cluster, with_internal=options.internal)
    wanted = matching(options.pattern, [view.name for view in views])
    views = [view for view in views if view.name in wanted]
    for view in views:
        terminal.item(
            topic=view.name,
            topic_id=view.topic_id.hex(),
            partitions=len(view.partitions),
            replicas=replicas_of(view),
            is_internal=view.is_internal,
            unwell_partitions=len(unwell(view)),
        )
    if options.quiet:
        for view in views:
            terminal.line(text.clean(view.name))
        return 0
    if not views and not terminal.is_json:
        suffix = f" like {options.pattern!r}" if options.pattern else ""
        terminal.say(f"There is no topic{suffix}. `hermes topics create NAME` makes one.")
        return 0
    terminal.table(
        ("TOPIC", "PARTITIONS", "REPLICAS", "STATE"),
        [(view.name, len(view.partitions), replicas_of(view), state_of(view)) for view in views],
    )
    return 0


async def describe_topics(context: Context) -> int:
    names = list(dict.fromkeys(context.options.topic))
    found = await admin.describe_topics(context.cluster, names)
    views = {name: view for name, view in found.items() if not isinstance(view, BrokerRefusal)}
    configs = await admin_configs.describe_configs(
        context.cluster, [ConfigResource(ResourceKind.TOPIC, name) for name in views]
    )
    sizes = await _sizes(context, list(views.values()), _windowed(configs))
    is_first = True
    for name, view in found.items():
        if isinstance(view, BrokerRefusal):
            context.terminal.fail(name, await context.missing_topic(name, view))
            continue
        entries = configs.get(ConfigResource(ResourceKind.TOPIC, name), {})
        if isinstance(entries, BrokerRefusal):
            context.refuse(name, entries)
            entries = {}
        if not is_first:
            context.terminal.line()
        is_first = False
        set_here = [entry for entry in entries.values() if entry.source == TOPIC_SOURCE]
        _show(context, view, sizes, set_here)
    return 0


def _windowed(
    configs: Mapping[ConfigResource, Mapping[str, ConfigEntry] | BrokerRefusal],
) -> set[str]:
    """The topics with a delivery window."""
    return {
        resource.name
        for resource, entries in configs.items()
        if not isinstance(entries, BrokerRefusal)
        and has_window({name: entry.value for name, entry in entries.items()})
    }


async def _sizes(
    context: Context, views: list[TopicView], windowed: set[str]
) -> dict[TopicPartition, Sizes]:
    """Per partition of these topics what could be found out."""
    partitions = [
        TopicPartition(view.name, row.partition) for view in views for row in view.partitions
    ]
    bounds = await context.bounds(partitions)
    stored: dict[TopicPartition, int] = {}
    try:
        directories = await admin_partitions.describe_log_dirs(
            context.cluster, topics=[view.name for view in views]
        )
    except ClientError as error:
        context.terminal.say(f"sizes are unknown: {error}")
        directories = {}
    for found in directories.values():
        for directory in found if isinstance(found, list) else ():
            for where, replica in directory.replicas.items():
                stored[where] = max(stored.get(where, 0), replica.size_bytes)
    hidden = [where for where in partitions if where.topic in windowed]
    counts = await count_window(context.cluster, hidden) if hidden else {}
    starts = {where: start for where, (start, _) in bounds.items()}
    ends = {where: end for where, (_, end) in bounds.items()}
    return {
        where: Sizes(starts.get(where), ends.get(where), stored.get(where), counts.get(where))
        for where in partitions
    }


def _show(
    context: Context,
    view: TopicView,
    sizes: dict[TopicPartition, Sizes],
    set_here: list[ConfigEntry],
) -> None:
    terminal = context.terminal
    rows = [(row, sizes[TopicPartition(view.name, row.partition)]) for row in view.partitions]
    terminal.item(
        topic=view.name,
        topic_id=view.topic_id.hex(),
        is_internal=view.is_internal,
        replicas=replicas_of(view),
        partitions=[_partition_item(row, known) for row, known in rows],
        configs={entry.name: entry.value for entry in set_here},
    )
    total = sum(known.size_bytes or 0 for _, known in rows)
    records = sum((known.end or 0) - (known.start or 0) for _, known in rows)
    terminal.line(f"topic       {text.clean(view.name)}{' (internal)' * view.is_internal}")
    terminal.line(f"id          {view.topic_id.hex()}")
    terminal.line(f"partitions  {len(view.partitions)}")
    terminal.line(f"replicas    {replicas_of(view)}")
    terminal.line(f"records     {records:,}")
    windows = [known.window for _, known in rows if known.window is not None]
    if windows:
        terminal.line(f"delayed     {sum(each.delayed for each in windows):,} (not due yet)")
        terminal.line(f"expired     {sum(each.expired for each in windows):,} (still stored)")
    terminal.line(f"size        {text.size(total)} (each partition once)")
    terminal.line(f"state       {state_of(view)}")
    for entry in set_here:
        terminal.line(f"set         {entry.name}={text.clean(entry.value or '')}")
    terminal.line()
    heading = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END")
    hidden = ("EXPIRED", "VISIBLE", "DELAYED") if windows else ("RECORDS",)
    terminal.table(
        (*heading, *hidden, "SIZE"),
        [_partition_row(row, known, is_windowed=bool(windows)) for row, known in rows],
    )


def _partition_row(row: PartitionView, known: Sizes, *, is_windowed: bool) -> tuple[object, ...]:
    is_known = known.start is not None and known.end is not None
    counts: tuple[int | None, ...]
    counts = ((known.end or 0) - (known.start or 0) if is_known else None,)
    if is_windowed:
        counts = known.window or (None, None, None)
    return (
        row.partition,
        row.leader if row.leader >= 0 else "none",
        row.leader_epoch,
        _ids(row.replicas),
        _ids(row.in_sync_replicas),
        known.start,
        known.end,
        *counts,
        None if known.size_bytes is None else text.size(known.size_bytes),
    )


def _partition_item(row: PartitionView, known: Sizes) -> dict[str, object]:
    return {
        "partition": row.partition,
        "leader": row.leader if row.leader >= 0 else None,
        "leader_epoch": row.leader_epoch,
        "replicas": list(row.replicas),
        "in_sync_replicas": list(row.in_sync_replicas),
        "start_offset": int64(known.start),
        "end_offset": int64(known.end),
        "size_bytes": int64(known.size_bytes),
        **_window_item(known.window),
    }


def _window_item(window: WindowCounts | None) -> dict[str, object]:
    """Nothing for a topic without a delivery window."""
    if window is None:
        return {}
    return {f"{name}_records": int64(count) for name, count in window._asdict().items()}


def _ids(numbers: tuple[int, ...]) -> str:
    return ",".join(str(number) for number in numbers)


def replicas_of(view: TopicView) -> int:
    """The replication factor; partitions may differ while they are moved: the largest."""
    return max((len(row.replicas) for row in view.partitions), default=0)


def unwell(view: TopicView) -> list[PartitionView]:
    """Partitions without a leader, or with replicas that are not in sync."""
    return [
        row
        for row in view.partitions
        if row.leader < 0 or len(row.in_sync_replicas) < len(row.replicas)
    ]


def state_of(view: TopicView) -> str:
    """In words for a table."""
    offline = sum(row.leader < 0 for row in view.partitions)
    lagging = len(unwell(view)) - offline
    words = [f"{offline} without leader"] if offline else []
    words += [f"{lagging} not in sync"] if lagging else []
    return ", ".join(words) or "ok"
