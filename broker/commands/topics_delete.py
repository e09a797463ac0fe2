"""`hermes topics delete` and `delete-records`: what is lost is shown first, and the name typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.client import admin, admin_groups, admin_partitions
from broker.client.failure import BrokerRefusal
from broker.commands import text
from broker.commands.context import Context, Refused
from broker.commands.terminal import int64
from broker.commands.values import Start
from broker.model import TopicPartition

GROUPS_NAMED_MAX: Final = 10


class Reader(NamedTuple):
    """A group that has to do with a topic."""

    group_id: str
    member_count: int


async def delete_topics(context: Context) -> int:
    options, terminal = context.options, context.terminal
    names = list(await context.topics(options.topic))
    if not options.yes:
        await _show_what_is_lost(context, names)
    word = names[0] if len(names) == 1 else f"delete {len(names)} topics"
    act = "delete it" if len(names) == 1 else "delete them"
    terminal.confirm(act, word, is_agreed=options.yes)
    for name, refusal in (await admin.delete_topics_each(context.cluster, names)).items():
        if refusal is not None:
            context.refuse(name, refusal)
            continue
        terminal.item(topic=name, outcome="deleted")
        terminal.line(f"topic {text.clean(name)!r} deleted")
    return 0


async def _show_what_is_lost(context: Context, names: Sequence[str]) -> None:
    """On standard error: records, bytes and readers of each topic."""
    views = await context.topics(names)
    partitions = [
        TopicPartition(name, row.partition) for name in names for row in views[name].partitions
    ]
    bounds = await context.bounds(partitions)
    stored: dict[str, int] = {}
    directories = await admin_partitions.describe_log_dirs(context.cluster, topics=names)
    for found in directories.values():
        for directory in found if isinstance(found, list) else ():
            for where, replica in directory.replicas.items():
                stored[where.topic] = stored.get(where.topic, 0) + replica.size_bytes
    readers = await readers_of(context, names)
    context.terminal.say("This deletes, for good:")
    for name in names:
        records = sum(end - start for where, (start, end) in bounds.items() if where.topic == name)
        context.terminal.say(
            f"  topic {text.clean(name)!r}: {text.plural(len(views[name].partitions), 'partition')}"
            f", {text.plural(records, 'record')}, {text.size(stored.get(name, 0))} on disk"
        )
        for reader in readers[name][:GROUPS_NAMED_MAX]:
            state = (
                f"{text.plural(reader.member_count, 'member')} running"
                if reader.member_count
                else "no members now"
            )
            context.terminal.say(f"    read by group {text.clean(reader.group_id)!r}: {state}")
        if len(readers[name]) > GROUPS_NAMED_MAX:
            context.terminal.say(f"    and by {len(readers[name]) - GROUPS_NAMED_MAX} groups more")


async def readers_of(context: Context, names: Sequence[str]) -> dict[str, list[Reader]]:
    """Per topic the groups that have commits or members there, those with members first."""
    cluster = context.cluster
    listed = [row.group_id for row in await admin_groups.list_groups(cluster)]
    committed = await admin_groups.committed_offsets(cluster, listed)
    described = {row.group_id: row for row in await admin_groups.describe_groups(cluster, listed)}
    found: dict[str, list[Reader]] = {name: [] for name in names}
    for group_id in listed:
        commits = committed[group_id]
        topics = set() if isinstance(commits, BrokerRefusal) else {w.topic for w in commits}
        counts: dict[str, int] = {}
        for member in described[group_id].members:
            for topic in {where.topic for where in member.assignment}:
                counts[topic] = counts.get(topic, 0) + 1
        for name in names:
            if name in topics or name in counts:
                found[name].append(Reader(group_id, counts.get(name, 0)))
    for readers in found.values():
        readers.sort(key=lambda reader: (-reader.member_count, reader.group_id))
    return found


async def delete_records(context: Context) -> int:
    options, terminal = context.options, context.terminal
    name = options.topic
    view = (await context.topics([name]))[name]
    there = [row.partition for row in view.partitions]
    missing = sorted(set(options.partitions or ()) - set(there))
    if missing:
        raise Refused(f"topic {name!r} has no partition {text.ranges(missing)}")
    partitions = [TopicPartition(name, each) for each in options.partitions or there]
    bounds = await context.bounds(partitions)
    before = await _limits(context, bounds)
    doomed = {
        where: before[where] - start
        for where, (start, _) in bounds.items()
        if before[where] > start
    }
    if not doomed:
        terminal.line("nothing to delete: no record is that old")
        return 0
    terminal.say(
        f"This deletes the oldest {text.plural(sum(doomed.values()), 'record')} of "
        f"{text.plural(len(doomed), 'partition')} of topic {name!r}, for good."
    )
    terminal.confirm("delete them", name, is_agreed=options.yes)
    outcome = await admin_partitions.delete_records(
        context.cluster, {where: before[where] for where in doomed}
    )
    rows: list[tuple[object, ...]] = []
    for where, found in outcome.items():
        if isinstance(found, BrokerRefusal):
            context.refuse(f"{name}-{where.partition}", found)
            continue
        start = bounds[where][0]
        rows.append((where.partition, start, found, found - start))
        terminal.item(
            topic=name,
            partition=where.partition,
            start_offset_before=int64(start),
            start_offset=int64(found),
        )
    if rows:
        terminal.table(("PARTITION", "START BEFORE", "START NOW", "DELETED"), rows)
    return 0


async def _limits(
    context: Context, bounds: dict[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Per partition the offset before which everything goes."""
    options = context.options
    if options.all:
        return {where: end for where, (_, end) in bounds.items()}
    if options.before is not None:
        beyond = [where for where, (_, end) in bounds.items() if options.before > end]
        if beyond:
            raise Refused(
                f"partition {text.ranges([where.partition for where in beyond])} has no offset "
                f"{options.before} yet: choose with --partitions, or use --all"
            )
        return {where: max(start, options.before) for where, (start, _) in bounds.items()}
    moment = Start("time", time_text=options.before_time).time_ms(context.now_ms())
    found = await admin_groups.offsets_at(context.cluster, dict.fromkeys(bounds, moment))
    return {
        where: found[where].offset if found[where].offset >= 0 else end
        for where, (_, end) in bounds.items()
    }
