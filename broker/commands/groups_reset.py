"""`hermes groups reset` and `create`: where a group goes on; a preview first, refused while it is
active.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from broker.client import admin_groups
from broker.client.admin_groups import GroupDescription
from broker.client.failure import BrokerRefusal, ErrorCode
from broker.commands import text
from broker.commands.context import Context, Refused
from broker.commands.groups import Commits, lag_of
from broker.commands.positions import resolve
from broker.commands.terminal import int64
from broker.commands.values import Start
from broker.model import INT64_MAX, TopicPartition

FILE_LINES_MAX: Final = 1_000_000


class Change(NamedTuple):
    """A partition's commit before (None: there was none) and after; `end` of the partition."""

    before: int | None
    after: int
    end: int


async def reset_group(context: Context) -> int:
    options, terminal = context.options, context.terminal
    if options.execute and options.dry_run:
        raise Refused("--execute and --dry-run exclude each other")
    group, commits = await _group(context, options.group)
    partitions = await _partitions(context, commits)
    wanted = await _targets(context, commits, partitions)
    changes = await _bounded(context, commits, wanted)
    _refuse_active(context, group)
    if not options.execute:
        _show(context, options.group, changes, is_done=False)
        terminal.say("This is a preview, nothing was changed. Add --execute to do it.")
        return 0
    if options.save:
        _save(context, changes)
    await _commit(context, options.group, {where: row.after for where, row in changes.items()})
    _show(context, options.group, changes, is_done=True)
    return 0


async def create_group(context: Context) -> int:
    options = context.options
    group, commits = (await _found(context, options.group)) or (None, {})
    if group is not None and group.members:
        raise Refused(f"group {options.group!r} exists and has members: choose another id")
    partitions = await context.select(options.topic)
    there = [where for where in partitions if where in commits]
    if there:
        raise Refused(
            f"group {options.group!r} exists and has commits for {there[0].topic!r}: "
            f"`hermes groups reset {options.group}` changes them"
        )
    bounds = await context.bounds(partitions)
    wanted = await resolve(context, options.at, bounds)
    await _commit(context, options.group, wanted)
    changes = {where: Change(None, offset, bounds[where][1]) for where, offset in wanted.items()}
    _show(context, options.group, changes, is_done=True)
    return 0


async def _group(context: Context, group_id: str) -> tuple[GroupDescription, Commits]:
    found = await _found(context, group_id)
    if found is None:
        raise Refused(
            f"{await context.missing_group(group_id)} `hermes groups create {group_id} --topic "
            "TOPIC` makes one"
        )
    return found


async def _found(context: Context, group_id: str) -> tuple[GroupDescription, Commits] | None:
    """The group and its commits, None when it does not exist. Raises BrokerRefusal."""
    (group,) = await admin_groups.describe_groups(context.cluster, [group_id])
    if group.error is not None:
        raise group.error
    commits = (await admin_groups.committed_offsets(context.cluster, [group_id]))[group_id]
    if isinstance(commits, BrokerRefusal):
        raise commits
    return None if group.state == "Dead" and not commits else (group, commits)


def _refuse_active(context: Context, group: GroupDescription) -> None:
    if not group.members:
        return
    hosts = sorted({f"{member.client_id} on {member.client_host}" for member in group.members})
    named = ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
    raise Refused(
        f"group {group.group_id!r} is {group.state} with "
        f"{text.plural(len(group.members), 'member')} ({text.clean(named)}), who would commit over "
        "it: stop them first, then repeat this"
    )


async def _partitions(context: Context, commits: Commits) -> list[TopicPartition]:
    options = context.options
    if options.topic:
        return await context.select(options.topic)
    if options.from_file is not None:
        return []
    if not commits:
        raise Refused(f"group {options.group!r} has no commits: say for which --topic")
    return sorted(commits)


async def _targets(
    context: Context, commits: Commits, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Per partition where to go, not yet kept within its bounds."""
    options = context.options
    if options.from_file is not None:
        rows = read_plan(_read_file(options.from_file))
        chosen = set(partitions)
        return {w: offset for w, offset in rows.items() if not options.topic or w in chosen}
    if options.to_offset is not None:
        return dict.fromkeys(partitions, options.to_offset)
    if options.shift_by is not None or options.to_current:
        lacking = [where for where in partitions if where not in commits]
        if lacking:
            raise Refused(
                f"group {options.group!r} has no commit for {lacking[0].topic}-"
                f"{lacking[0].partition}: choose partitions with --topic TOPIC:0,2-4"
            )
        return {where: commits[where].offset + (options.shift_by or 0) for where in partitions}
    start = Start("start") if options.to_earliest else Start("end")
    if options.to_time is not None:
        start = Start("time", time_text=options.to_time)
    return await resolve(context, start, await context.bounds(partitions))


async def _bounded(
    context: Context, commits: Commits, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Change]:
    """Kept within what each partition has; each that was moved is said."""
    bounds = await context.bounds(list(wanted))
    missing = [where for where in wanted if where not in bounds]
    if missing:
        raise Refused(
            f"{missing[0].topic}-{missing[0].partition} does not exist (any more), or has no "
            "leader: choose partitions with --topic TOPIC:0,2-4"
        )
    changes = {}
    for where, offset in sorted(wanted.items()):
        start, end = bounds[where]
        kept = min(max(offset, start), end)
        if kept != offset:
            context.terminal.say(
                f"{where.topic}-{where.partition} has {start} to {end}: {kept} instead of {offset}"
            )
        commit = commits.get(where)
        changes[where] = Change(None if commit is None else commit.offset, kept, end)
    return changes


async def _commit(context: Context, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    try:
        await admin_groups.set_committed_offsets(context.cluster, group_id, offsets)
    except BrokerRefusal as error:
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            raise Refused(
                f"group {group_id!r} got a member meanwhile: stop it first; nothing was changed"
            ) from error
        raise


def _show(
    context: Context, group_id: str, changes: Mapping[TopicPartition, Change], *, is_done: bool
) -> None:
    rows: list[tuple[object, ...]] = []
    for where, change in changes.items():
        lag = lag_of(change.after, change.end)
        moved = None if change.before is None else change.after - change.before
        rows.append((*where, change.before, change.after, moved, lag))
        context.terminal.item(
            group=group_id,
            topic=where.topic,
            partition=where.partition,
            before=int64(change.before),
            after=int64(change.after),
            end_offset=int64(change.end),
            lag=int64(lag),
            outcome="changed" if is_done else "would_change",
        )
    now = "NOW" if is_done else "WOULD BE"
    context.terminal.table(("TOPIC", "PARTITION", "BEFORE", now, "MOVED BY", "LAG"), rows)


def _save(context: Context, changes: Mapping[TopicPartition, Change]) -> None:
    """The commits before, in the form of --from-file. Raises Refused when they cannot be kept."""
    lines = [
        f"{where.topic},{where.partition},{change.before}"
        for where, change in changes.items()
        if change.before is not None
    ]
    path = Path(context.options.save)
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}; nothing was changed") from error
    context.terminal.say(f"{text.plural(len(lines), 'commit')} as before kept in {path}")


def _read_file(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {name}: {error}") from error


def read_plan(content: str) -> dict[TopicPartition, int]:
    """The lines of a --from-file. Raises BadText, naming the line."""
    rows: dict[TopicPartition, int] = {}
    lines = content.splitlines()
    if len(lines) > FILE_LINES_MAX:
        raise text.BadText(f"the file has over {FILE_LINES_MAX:,} lines")
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip().strip('"') for part in line.split(",")]
        if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            raise text.BadText(f"line {number} is not TOPIC,PARTITION,OFFSET: {line!r}")
        where, offset = TopicPartition(parts[0], int(parts[1])), int(parts[2])
        if where in rows or offset > INT64_MAX:
            reason = "comes twice" if where in rows else "has too large an offset"
            raise text.BadText(f"line {number}: {where.topic},{where.partition} {reason}")
        rows[where] = offset
    if not rows:
        raise text.BadText("the file has no line of TOPIC,PARTITION,OFFSET")
    return rows
