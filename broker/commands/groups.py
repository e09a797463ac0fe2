"""`hermes groups list` and `describe`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker.client import admin_groups
from broker.client.admin_groups import GroupDescription, GroupMember
from broker.client.failure import BrokerRefusal
from broker.client.offsets import EARLIEST, LATEST, CommittedOffset
from broker.commands import text
from broker.commands.context import Context, matching
from broker.commands.terminal import int64
from broker.model import TopicPartition

Commits = dict[TopicPartition, CommittedOffset]


class Row(NamedTuple):
    """A partition of a group. `committed`, `end` and `lag` are None when unknown."""

    where: TopicPartition
    committed: int | None
    end: int | None
    lag: int | None
    member: GroupMember | None


async def list_groups(context: Context) -> int:
    options, terminal = context.options, context.terminal
    listed = await admin_groups.list_groups(context.cluster)
    wanted = matching(options.pattern, [row.group_id for row in listed])
    state = (options.state or "").lower()
    listed = [row for row in listed if row.group_id in wanted and state in ("", row.state.lower())]
    lags = await _lags(context, [row.group_id for row in listed]) if options.lag else {}
    for row in listed:
        extra = {"lag": int64(lags.get(row.group_id))} if options.lag else {}
        terminal.item(
            group=row.group_id,
            state=row.state,
            type=row.group_type,
            protocol_type=row.protocol_type,
            **extra,
        )
    if options.quiet:
        for row in listed:
            terminal.line(text.clean(row.group_id))
        return 0
    if not listed and not terminal.is_json:
        terminal.say("There is no such group." if wanted or state else "There is no group.")
        return 0
    heading = ("GROUP", "STATE", "TYPE", *(("LAG",) if options.lag else ()))
    rows = [
        (row.group_id, row.state, row.group_type)
        + ((lags.get(row.group_id),) if options.lag else ())
        for row in listed
    ]
    terminal.table(heading, rows)
    return 0


async def _lags(context: Context, group_ids: list[str]) -> dict[str, int | None]:
    """Per group the records that are left to read where it has commits; None without any."""
    committed = await admin_groups.committed_offsets(context.cluster, group_ids)
    commits = {group_id: found for group_id, found in committed.items() if isinstance(found, dict)}
    wanted = {where for found in commits.values() for where in found}
    starts, ends = await _starts_and_ends(context, wanted)
    lags: dict[str, int | None] = {}
    for group_id, found in commits.items():
        known = [
            lag_of(commit.offset, ends.get(where), starts.get(where, 0))
            for where, commit in found.items()
        ]
        counted = [lag for lag in known if lag is not None]
        lags[group_id] = sum(counted) if counted else None
    return lags


async def _starts_and_ends(
    context: Context, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where consumers begin and end to read, of each partition that answers."""
    wanted = list(partitions)
    ends, starts = [
        await admin_groups.offsets_where_known(context.cluster, dict.fromkeys(wanted, place))
        for place in (LATEST, EARLIEST)
    ]
    return (
        {where: row.offset for where, row in starts.items()},
        {where: row.offset for where, row in ends.items()},
    )


def lag_of(committed: int | None, end: int | None, start: int = 0) -> int | None:
    """Records left to read, never negative: the end is asked after the commit. What is gone below
    `start`, deleted or expired, needs no reading. None is unknown.
    """
    return None if committed is None or end is None else max(0, end - max(committed, start))


async def describe_groups(context: Context) -> int:
    options, terminal = context.options, context.terminal
    names = list(dict.fromkeys(options.group))
    described = await admin_groups.describe_groups(context.cluster, names)
    committed = await admin_groups.committed_offsets(context.cluster, names)
    wanted = set(await context.select(options.topic)) if options.topic else None
    is_first = True
    for group in described:
        commits = committed[group.group_id]
        if group.error is not None:
            context.refuse(group.group_id, group.error)
            continue
        if isinstance(commits, BrokerRefusal):
            context.refuse(group.group_id, commits)
            continue
        if group.state == "Dead" and not commits:
            terminal.fail(group.group_id, await context.missing_group(group.group_id))
            continue
        if not is_first:
            terminal.line()
        is_first = False
        rows = await rows_of(context, group, commits)
        if wanted is not None:
            rows = [row for row in rows if row.where in wanted]
        _show(context, group, rows)
    return 0


async def rows_of(context: Context, group: GroupDescription, commits: Commits) -> list[Row]:
    """The partitions that the group has commits or members for, sorted."""
    owners = {where: member for member in group.members for where in member.assignment}
    partitions = sorted(set(commits) | set(owners))
    starts, ends = await _starts_and_ends(context, partitions)
    rows = []
    for where in partitions:
        commit = commits.get(where)
        offset = None if commit is None else commit.offset
        end = ends.get(where)
        rows.append(
            Row(where, offset, end, lag_of(offset, end, starts.get(where, 0)), owners.get(where))
        )
    return rows


def _show(context: Context, group: GroupDescription, rows: list[Row]) -> None:
    terminal = context.terminal
    lags = [row.lag for row in rows if row.lag is not None]
    terminal.item(
        group=group.group_id,
        state=group.state,
        protocol=group.protocol,
        lag=int64(sum(lags)) if lags else None,
        partitions=[_item(row) for row in rows],
        members=[_member_item(member) for member in group.members],
    )
    unknown = len(rows) - len(lags)
    beside = f" (and {text.plural(unknown, 'partition')} without a commit)" if unknown else ""
    terminal.line(f"group    {text.clean(group.group_id)}")
    terminal.line(f"state    {group.state}{f' ({group.protocol})' * bool(group.protocol)}")
    terminal.line(f"members  {len(group.members)}")
    terminal.line(f"lag      {f'{sum(lags):,}' if lags else 'unknown'}{beside}")
    terminal.line()
    if context.options.members:
        _show_members(context, group)
        return
    if not rows:
        terminal.line("no commits and no assigned partitions")
        return
    terminal.table(
        ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST"),
        [(*row.where, row.committed, row.end, row.lag, *_owner(row.member)) for row in rows],
    )


def _show_members(context: Context, group: GroupDescription) -> None:
    if not group.members:
        context.terminal.line("no members")
        return
    context.terminal.table(
        ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"),
        [
            (
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                "; ".join(_assigned(member)),
            )
            for member in group.members
        ],
    )


def _assigned(member: GroupMember) -> list[str]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(member.assignment):
        topics.setdefault(topic, []).append(partition)
    return [f"{topic}: {text.ranges(numbers)}" for topic, numbers in topics.items()]


def _owner(member: GroupMember | None) -> tuple[str | None, str | None, str | None]:
    if member is None:
        return None, None, None
    return member.instance_id or member.member_id, member.client_id, member.client_host


def _item(row: Row) -> dict[str, object]:
    return {
        "topic": row.where.topic,
        "partition": row.where.partition,
        "committed_offset": int64(row.committed),
        "end_offset": int64(row.end),
        "lag": int64(row.lag),
        "member": None if row.member is None else row.member.member_id,
    }


def _member_item(member: GroupMember) -> Mapping[str, object]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "partitions": [
            {"topic": topic, "partition": partition} for topic, partition in member.assignment
        ],
    }
