"""`hermes topics list` and `describe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
MEANINGS: Final = {
    "durability": {
        "fsync": "on disk before it is acknowledged and seen",
        "replicated": "acknowledged before it is on disk, as with Kafka",
    },
    "record.validation": {
        "header": "batches are checked, not the records in them",
        "full": "every record is checked",
    },
}
"""What is worth a line of every topic, and what it means; Apache Kafka has no such settings."""
ESTIMATED: Final = " at most (estimated: compaction leaves gaps between offsets)"


class Sizes(NamedTuple):
    """What is known about a partition beyond its metadata; None is unknown."""

    start: int | None
    end: int | None
    size_bytes: int | None
    window: WindowCounts | None = None
    """None where no delivery window hides anything."""

    @property
    def records(self) -> int | None:
        """End minus start."""
        return None if self.start is None or self.end is None else self.end - self.start


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
        _show(context, view, sizes, entries)
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
    entries: Mapping[str, ConfigEntry],
) -> None:
    terminal = context.terminal
    values = {name: entry.value for name, entry in entries.items()}
    rows = [(row, sizes[TopicPartition(view.name, row.partition)]) for row in view.partitions]
    is_estimated = "compact" in (values.get("cleanup.policy") or "")
    terminal.item(
        topic=view.name,
        topic_id=view.topic_id.hex(),
        is_internal=view.is_internal,
        replicas=replicas_of(view),
        **{name.replace(".", "_"): values.get(name) for name in MEANINGS},
        is_record_count_estimated=is_estimated,
        partitions=[_partition_item(row, known) for row, known in rows],
        configs={entry.name: entry.value for entry in entries.values() if is_set_here(entry)},
    )
    for line in _lines(view, [known for _, known in rows], entries, is_estimated=is_estimated):
        terminal.line(line)
    terminal.line()
    is_windowed = any(known.window is not None for _, known in rows)
    heading = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END")
    count = "RECORDS AT MOST" if is_estimated else "RECORDS"
    counts = ("EXPIRED", "VISIBLE", "DELAYED") if is_windowed else (count,)
    terminal.table(
        (*heading, *counts, "SIZE"),
        [_partition_row(row, known, is_windowed=is_windowed) for row, known in rows],
    )


def _lines(
    view: TopicView,
    sizes: Sequence[Sizes],
    entries: Mapping[str, ConfigEntry],
    *,
    is_estimated: bool,
) -> Iterator[str]:
    """What is said of the topic above the table of its partitions."""
    records = sum(known.records or 0 for known in sizes)
    windows = [known.window for known in sizes if known.window is not None]
    yield f"topic       {text.clean(view.name)}{' (internal)' * view.is_internal}"
    yield f"id          {view.topic_id.hex()}"
    yield f"partitions  {len(view.partitions)}"
    yield f"replicas    {replicas_of(view)}"
    yield f"records     {records:,}{ESTIMATED * is_estimated}"
    if windows:
        yield f"delayed     {sum(each.delayed for each in windows):,} (not due yet)"
        yield f"expired     {sum(each.expired for each in windows):,} (still stored)"
    total = sum(known.size_bytes or 0 for known in sizes)
    yield f"size        {text.size(total)} (each partition once)"
    yield f"state       {state_of(view)}"
    for name in MEANINGS:
        if name in entries:
            yield _setting_line(entries[name])
    for entry in entries.values():
        if is_set_here(entry):
            yield f"set         {entry.name}={text.clean(entry.value or '')}"


def is_set_here(entry: ConfigEntry) -> bool:
    """Whether the topic itself says so, not its broker."""
    return entry.source == TOPIC_SOURCE


def _setting_line(entry: ConfigEntry) -> str:
    """The setting with where it comes from and what it means."""
    value = entry.value or ""
    meaning = MEANINGS[entry.name].get(value)
    source = "set here" if is_set_here(entry) else entry.source_name
    words = f"{text.clean(value)} ({source}){f': {meaning}' if meaning else ''}"
    return f"{entry.name.rpartition('.')[2]:<12}{words}"


def _partition_row(row: PartitionView, known: Sizes, *, is_windowed: bool) -> tuple[object, ...]:
    counts: tuple[int | None, ...] = (known.records,)
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
        "records": int64(known.records),
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
