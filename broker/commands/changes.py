"""Settings changed and shown before and after, for `hermes topics alter` and `hermes config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.client import admin_configs
from broker.client.admin_configs import ConfigChange, ConfigEntry, ConfigOperation, ConfigResource
from broker.client.failure import BrokerRefusal
from broker.commands import text
from broker.commands.context import Context, hint_for


async def change_settings(
    context: Context,
    resources: Sequence[ConfigResource],
    changes: Sequence[ConfigChange],
    *,
    is_dry_run: bool,
) -> None:
    """Make the changes on each resource; per setting one item and one row: before and after.

    A refused resource is a failure of its own, with the nearest name of an unknown setting.
    """
    terminal = context.terminal
    before = await admin_configs.describe_configs(context.cluster, resources)
    defaults: dict[str, ConfigEntry] = {}
    if admin_configs.ALL_BROKERS_RESOURCE in resources:
        defaults = await admin_configs.broker_defaults(context.cluster)
    outcome = await admin_configs.alter_configs(
        context.cluster, dict.fromkeys(resources, changes), validate_only=is_dry_run
    )
    rows: list[tuple[object, ...]] = []
    for resource in resources:
        found = before.get(resource, {})
        entries = {} if isinstance(found, BrokerRefusal) else found
        if resource == admin_configs.ALL_BROKERS_RESOURCE:
            entries = entries | defaults
        refusal = outcome[resource]
        if refusal is not None:
            terminal.fail(str(resource), refusal, hint=_hint(refusal, changes, entries))
            continue
        for change in changes:
            was, new = _value(entries, change.name), _after(change, entries, resource)
            is_inherited = change.operation is ConfigOperation.DELETE and new is None
            shown = "(inherited)" if is_inherited else new
            rows.append((str(resource), change.name, was, shown))
            terminal.item(
                kind=_kind(resource),
                name=resource.name,
                setting=change.name,
                before=was,
                after=new,
                outcome="would_change" if is_dry_run else "changed",
            )
    if rows:
        terminal.table(("OF", "SETTING", "BEFORE", "WOULD BE" if is_dry_run else "NOW"), rows)


def _kind(resource: ConfigResource) -> str:
    if resource.kind in admin_configs.ResourceKind.__members__.values():
        return admin_configs.ResourceKind(resource.kind).name.lower().replace("_", "-")
    return str(resource.kind)


def _value(entries: Mapping[str, ConfigEntry], name: str) -> str | None:
    entry = entries.get(name)
    return None if entry is None else entry.value


def _after(
    change: ConfigChange, entries: Mapping[str, ConfigEntry], resource: ConfigResource
) -> str | None:
    """What the setting becomes, as far as it can be told without asking again."""
    entry = entries.get(change.name)
    if change.operation is ConfigOperation.SET:
        return change.value
    if change.operation is ConfigOperation.DELETE:
        return None if entry is None else _inherited(entry, admin_configs.own_source(resource))
    listed = [each for each in ((entry.value if entry else None) or "").split(",") if each]
    named = (change.value or "").split(",")
    if change.operation is ConfigOperation.APPEND:
        return ",".join(listed + [each for each in named if each not in listed])
    return ",".join(each for each in listed if each not in named)


def _inherited(entry: ConfigEntry, own_source: int | None) -> str | None:
    """The value that counts when the setting's owner says nothing."""
    if own_source not in (None, entry.source):
        return entry.value  # it says nothing now
    weaker = entry.synonyms[1:]
    return weaker[0].value if weaker else entry.value if entry.is_default else None


def _hint(
    refusal: BrokerRefusal, changes: Sequence[ConfigChange], entries: Mapping[str, ConfigEntry]
) -> str:
    unknown = [change.name for change in changes if entries and change.name not in entries]
    if unknown and "did you mean" not in str(refusal):
        near = text.nearest(unknown[0], list(entries))
        return f" There is no setting {unknown[0]!r}.{near}"
    return hint_for(refusal)
