"""`hermes groups delete` and `delete-offsets`: what is lost is shown first, and the id typed."""

from __future__ import annotations

from broker.client import admin_groups
from broker.client.failure import BrokerRefusal
from broker.commands import text
from broker.commands.context import Context, Refused


async def delete_groups(context: Context) -> int:
    options, terminal = context.options, context.terminal
    names = list(dict.fromkeys(options.group))
    described = await admin_groups.describe_groups(context.cluster, names)
    committed = await admin_groups.committed_offsets(context.cluster, names)
    for group in described:
        if group.members:
            raise Refused(
                f"group {group.group_id!r} has {text.plural(len(group.members), 'member')}: stop "
                "them first. No group was deleted"
            )
        if group.state == "Dead" and not committed[group.group_id]:
            raise Refused(f"{await context.missing_group(group.group_id)} No group was deleted")
    if not options.yes:
        terminal.say("This forgets, for good, where these groups would go on reading:")
        for group in described:
            commits = committed[group.group_id]
            count = 0 if isinstance(commits, BrokerRefusal) else len(commits)
            terminal.say(
                f"  group {text.clean(group.group_id)!r}: commits for "
                f"{text.plural(count, 'partition')}"
            )
    word = names[0] if len(names) == 1 else f"delete {len(names)} groups"
    terminal.confirm("delete it" if len(names) == 1 else "delete them", word, is_agreed=options.yes)
    for name, refusal in (await admin_groups.delete_groups_each(context.cluster, names)).items():
        if refusal is not None:
            context.refuse(name, refusal)
            continue
        terminal.item(group=name, outcome="deleted")
        terminal.line(f"group {text.clean(name)!r} deleted")
    return 0


async def delete_offsets(context: Context) -> int:
    options, terminal = context.options, context.terminal
    name = options.group
    committed = (await admin_groups.committed_offsets(context.cluster, [name]))[name]
    if isinstance(committed, BrokerRefusal):
        raise committed
    if not committed:
        raise Refused(await context.missing_group(name))
    # By the commits, not by the metadata: the topic may be gone.
    wanted = [
        where
        for where in sorted(committed)
        for topic, numbers in options.topic
        if where.topic == topic and (numbers is None or where.partition in numbers)
    ]
    if not wanted:
        topics = sorted({where.topic for where in committed})
        raise Refused(
            f"group {name!r} has no such commits; it has some for {', '.join(topics[:10])}"
        )
    terminal.say(
        f"This forgets what group {name!r} has committed for "
        f"{text.plural(len(wanted), 'partition')}."
    )
    terminal.confirm("forget it", name, is_agreed=options.yes)
    outcome = await admin_groups.delete_committed_offsets(context.cluster, name, wanted)
    rows: list[tuple[object, ...]] = []
    for where, refusal in outcome.items():
        if refusal is not None:
            context.refuse(f"{where.topic}-{where.partition}", refusal)
            continue
        rows.append((*where, committed[where].offset))
        terminal.item(
            group=name,
            topic=where.topic,
            partition=where.partition,
            before=str(committed[where].offset),
            outcome="deleted",
        )
    if rows:
        terminal.table(("TOPIC", "PARTITION", "FORGOTTEN"), rows)
    return 0
