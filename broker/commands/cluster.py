"""`hermes cluster describe | brokers | log-dirs | api-versions`."""

from __future__ import annotations

from collections.abc import Sequence

from broker.client import admin, admin_groups, admin_partitions
from broker.client.admin_partitions import LogDir
from broker.client.cluster import ANY_NODE
from broker.client.failure import BrokerRefusal
from broker.commands import text
from broker.commands.context import Context, Refused
from broker.commands.terminal import int64
from broker.commands.topics import unwell
from broker.model import TopicPartition


async def describe(context: Context) -> int:
    terminal = context.terminal
    about = await admin.describe_cluster(context.cluster)
    views = await admin.list_topics(context.cluster, with_internal=True)
    groups = await admin_groups.list_groups(context.cluster)
    partitions = [row for view in views for row in view.partitions]
    offline = sum(row.leader < 0 for row in partitions)
    lagging = sum(len(unwell(view)) for view in views) - offline
    terminal.item(
        cluster_id=about.cluster_id,
        controller=about.controller_id if about.controller_id >= 0 else None,
        brokers=len(about.nodes),
        topics=len(views),
        partitions=len(partitions),
        groups=len(groups),
        offline_partitions=offline,
        out_of_sync_partitions=lagging,
    )
    internal = sum(view.is_internal for view in views)
    terminal.line(f"cluster      {about.cluster_id}")
    terminal.line(f"controller   {'none' if about.controller_id < 0 else about.controller_id}")
    terminal.line(f"brokers      {len(about.nodes)}")
    terminal.line(f"topics       {len(views):,}{f' ({internal} internal)' * bool(internal)}")
    terminal.line(f"partitions   {len(partitions):,}")
    terminal.line(f"groups       {len(groups):,}")
    terminal.line(f"offline      {text.plural(offline, 'partition')} without a leader")
    terminal.line(f"out of sync  {text.plural(lagging, 'partition')} with replicas behind")
    if offline or lagging:
        terminal.say("`hermes topics list` shows which topics these are.")
    return 1 if offline or lagging else 0


async def brokers(context: Context) -> int:
    terminal = context.terminal
    about = await admin.describe_cluster(context.cluster)
    views = await admin.list_topics(context.cluster, with_internal=True)
    partitions = [row for view in views for row in view.partitions]
    rows: list[tuple[object, ...]] = []
    for node in sorted(about.nodes):
        leads = sum(row.leader == node.node_id for row in partitions)
        holds = sum(node.node_id in row.replicas for row in partitions)
        is_controller = node.node_id == about.controller_id
        address = f"{node.host}:{node.port}"
        rows.append((node.node_id, address, node.rack, leads, holds, is_controller))
        terminal.item(
            broker=node.node_id,
            host=node.host,
            port=node.port,
            rack=node.rack,
            leads=leads,
            replicas=holds,
            is_controller=is_controller,
        )
    terminal.table(("BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS", "CONTROLLER"), rows)
    return 0


async def log_dirs(context: Context) -> int:
    options, terminal = context.options, context.terminal
    if options.topic:
        await context.topics(options.topic)
    if options.broker is not None:
        await _known_broker(context, options.broker)
    found = await admin_partitions.describe_log_dirs(
        context.cluster,
        None if options.broker is None else [options.broker],
        topics=options.topic,
    )
    directories: list[tuple[object, ...]] = []
    replicas: list[tuple[int, TopicPartition, int]] = []
    for node_id, answer in found.items():
        if isinstance(answer, BrokerRefusal):
            context.refuse(f"broker {node_id}", answer)
            continue
        for row in answer:
            if row.error is not None:
                context.refuse(f"broker {node_id}: {row.path}", row.error)
            largest = _largest(row, options.top)
            replicas += [(node_id, where, size_bytes) for where, size_bytes in largest]
            directories.append(_directory_row(node_id, row))
            terminal.item(**_directory_item(node_id, row, largest))
    terminal.table(
        ("BROKER", "DIRECTORY", "REPLICAS", "USED", "FREE ON DISK", "DISK", "STATE"), directories
    )
    terminal.line()
    replicas.sort(key=lambda each: -each[2])
    terminal.table(
        ("TOPIC", "PARTITION", "BROKER", "SIZE"),
        [(*where, node_id, text.size(count)) for node_id, where, count in replicas[: options.top]],
    )
    return 0


def _largest(row: LogDir, count_max: int) -> list[tuple[TopicPartition, int]]:
    sizes = [(where, replica.size_bytes) for where, replica in row.replicas.items()]
    return sorted(sizes, key=lambda each: (-each[1], each[0]))[:count_max]


def _used_bytes(row: LogDir) -> int:
    return sum(replica.size_bytes for replica in row.replicas.values())


def _directory_row(node_id: int, row: LogDir) -> tuple[object, ...]:
    sizes = (_used_bytes(row), row.usable_bytes, row.total_bytes)
    state = "offline" if row.error else "ok"
    return (node_id, row.path, len(row.replicas), *(text.size(each) for each in sizes), state)


def _directory_item(
    node_id: int, row: LogDir, largest: Sequence[tuple[TopicPartition, int]]
) -> dict[str, object]:
    return {
        "broker": node_id,
        "path": row.path,
        "replicas": len(row.replicas),
        "size_bytes": int64(_used_bytes(row)),
        "usable_bytes": int64(row.usable_bytes) if row.usable_bytes >= 0 else None,
        "total_bytes": int64(row.total_bytes) if row.total_bytes >= 0 else None,
        "largest": [
            {"topic": where.topic, "partition": where.partition, "size_bytes": int64(size_bytes)}
            for where, size_bytes in largest
        ],
    }


async def api_versions(context: Context) -> int:
    options, terminal = context.options, context.terminal
    if options.broker is not None:
        await _known_broker(context, options.broker)
    offered = await admin.api_versions(
        context.cluster, ANY_NODE if options.broker is None else options.broker
    )
    rows: list[tuple[object, ...]] = []
    for row in offered:
        versions = f"{row.min_version} to {row.max_version}"
        rows.append((row.api_key, row.name, versions, row.used_version))
        terminal.item(
            api_key=row.api_key,
            name=row.name or None,
            min_version=row.min_version,
            max_version=row.max_version,
            used_version=row.used_version,
        )
    terminal.table(("KEY", "API", "VERSIONS", "USED"), rows)
    return 0


async def _known_broker(context: Context, node_id: int) -> None:
    about = await admin.describe_cluster(context.cluster)
    known = sorted(node.node_id for node in about.nodes)
    if node_id not in known:
        raise Refused(f"there is no broker {node_id}; there are {text.ranges(known)}")
