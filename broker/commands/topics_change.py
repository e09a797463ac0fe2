"""`hermes topics create`, `alter` and `grow`."""

from __future__ import annotations

from broker.client import admin
from broker.client.admin import NewTopic
from broker.client.admin_configs import ConfigChange, ConfigOperation, ConfigResource, ResourceKind
from broker.client.failure import BrokerRefusal, ErrorCode
from broker.commands import text
from broker.commands.changes import change_settings
from broker.commands.context import Context, Refused


async def create_topics(context: Context) -> int:
    options, terminal = context.options, context.terminal
    configs = dict(options.set)
    wanted = [
        NewTopic(name, options.partitions, options.replicas, configs)
        for name in dict.fromkeys(options.topic)
    ]
    outcome = await admin.create_topics_each(context.cluster, wanted, validate_only=options.dry_run)
    done = "would be created" if options.dry_run else "created"
    for name, found in outcome.items():
        if isinstance(found, BrokerRefusal):
            if options.if_not_exists and found.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                terminal.item(topic=name, outcome="exists")
                terminal.line(f"topic {text.clean(name)!r} exists already")
                continue
            context.refuse(name, found)
            continue
        terminal.item(
            topic=name,
            outcome=done.replace(" ", "_"),
            topic_id=found.topic_id.hex(),
            partitions=found.partition_count if found.partition_count >= 0 else None,
            replicas=found.replication_factor if found.replication_factor >= 0 else None,
        )
        count = text.plural(max(found.partition_count, 0), "partition")
        copies = text.plural(max(found.replication_factor, 0), "replica")
        terminal.line(f"topic {name!r} {done}: {count}, {copies} each")
    return 0


async def alter_topics(context: Context) -> int:
    options = context.options
    changes = [ConfigChange(name, value) for name, value in options.set]
    changes += [ConfigChange(name, None, ConfigOperation.DELETE) for name in options.unset]
    changes += [ConfigChange(name, value, ConfigOperation.APPEND) for name, value in options.append]
    changes += [
        ConfigChange(name, value, ConfigOperation.SUBTRACT) for name, value in options.subtract
    ]
    if not changes:
        raise Refused("nothing to change: give --set, --unset, --append or --subtract")
    names = list(await context.topics(options.topic))
    resources = [ConfigResource(ResourceKind.TOPIC, name) for name in names]
    await change_settings(context, resources, changes, is_dry_run=options.dry_run)
    return 0


async def grow_topic(context: Context) -> int:
    options, terminal = context.options, context.terminal
    name, wanted = options.topic, options.partitions
    view = (await context.topics([name]))[name]
    count = len(view.partitions)
    if wanted <= count:
        raise Refused(
            f"topic {name!r} has {text.plural(count, 'partition')} already, and partitions cannot "
            f"be taken away: ask for more than {count}"
        )
    await admin.create_partitions(context.cluster, name, wanted, validate_only=True)
    if not options.dry_run:
        terminal.say(
            f"Topic {name!r} grows from {count} to {wanted} partitions. About "
            f"{100 - count * 100 // wanted} % of the keys move to another partition: the order of "
            "their records holds only once consumers have read what is there now. Partitions "
            "cannot be taken away again."
        )
        terminal.confirm(f"grow {name!r}", name, is_agreed=options.yes)
        await admin.create_partitions(context.cluster, name, wanted)
    outcome = "would grow" if options.dry_run else "grown"
    terminal.item(
        topic=name, outcome=outcome.replace(" ", "_"), partitions_before=count, partitions=wanted
    )
    terminal.line(f"topic {name!r} {outcome} from {count} to {wanted} partitions")
    return 0
