"""`hermes config list | describe | set | unset`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Final

from broker.client import admin_configs
from broker.client.admin_configs import (
    ALL_BROKERS_RESOURCE,
    SOURCE_NAMES,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from broker.client.failure import BrokerRefusal
from broker.commands import text
from broker.commands.changes import change_settings
from broker.commands.context import Context, Refused

ALL_BROKERS: Final = "all"
_TAGS: Final = re.compile(r"</?[a-z]+[^<>]*>")
"""Apache Kafka writes its documentation for web pages."""


async def list_owners(context: Context) -> int:
    terminal = context.terminal
    kinds = [] if context.options.kind is None else [_kind(context.options.kind)]
    found = await admin_configs.list_config_resources(context.cluster, kinds)
    rows = [(_kind_name(each.kind), each.name or ALL_BROKERS) for each in found]
    for kind, name in rows:
        terminal.item(kind=kind, name=name)
    if not rows and not terminal.is_json:
        terminal.say("There is none.")
        return 0
    terminal.table(("KIND", "NAME"), rows)
    return 0


async def describe(context: Context) -> int:
    options, terminal = context.options, context.terminal
    resource = await _resource(context)
    found = (await admin_configs.describe_configs(context.cluster, [resource])).get(resource)
    if found is None or isinstance(found, BrokerRefusal):
        raise found or Refused(f"the broker knows no settings of {resource}")
    entries = dict(sorted(found.items()))
    if resource == ALL_BROKERS_RESOURCE and (options.setting or options.all):
        defaults = await admin_configs.broker_defaults(context.cluster)
        if not options.setting:  # what each broker has for itself cannot be said of all
            defaults = {name: each for name, each in defaults.items() if not each.is_read_only}
        entries = dict(sorted((entries | defaults).items()))
    if options.setting:
        entries = _chosen(entries, options.setting)
    elif not options.all:
        entries = {name: entry for name, entry in entries.items() if not entry.is_default}
    for entry in entries.values():
        terminal.item(**_item(entry))
    if not entries and not terminal.is_json:
        terminal.say(f"Nothing was set for {resource}: defaults count. --all shows them.")
        return 0
    if options.docs:
        for entry in entries.values():
            _explain(context, entry)
        return 0
    terminal.table(
        ("SETTING", "VALUE", "FROM", "TYPE"),
        [(each.name, _shown(each), each.source_name, each.type_name) for each in entries.values()],
    )
    return 0


async def set_settings(context: Context) -> int:
    options = context.options
    changes = [ConfigChange(name, value) for name, value in options.setting]
    await change_settings(context, [await _resource(context)], changes, is_dry_run=options.dry_run)
    return 0


async def unset_settings(context: Context) -> int:
    options = context.options
    changes = [ConfigChange(name, None, ConfigOperation.DELETE) for name in options.setting]
    await change_settings(context, [await _resource(context)], changes, is_dry_run=options.dry_run)
    return 0


async def _resource(context: Context) -> ConfigResource:
    """Whose settings are meant. Raises Refused, with the nearest name, for a topic that is not
    there.
    """
    options = context.options
    kind = _kind(options.kind)
    if kind is ResourceKind.TOPIC:
        await context.topics([options.name])
    if kind is ResourceKind.BROKER and options.name == ALL_BROKERS:
        return ALL_BROKERS_RESOURCE
    is_broker = kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER)
    if is_broker and not options.name.isdecimal():
        raise Refused(f"not a broker: {options.name!r}; give its id, or {ALL_BROKERS} for all")
    return ConfigResource(kind, options.name)


def _kind(word: str) -> ResourceKind:
    return ResourceKind[word.upper().replace("-", "_")]


def _kind_name(kind: int) -> str:
    known = {each.value: each.name.lower().replace("_", "-") for each in ResourceKind}
    return known.get(kind, f"kind {kind}")


def _chosen(entries: Mapping[str, ConfigEntry], names: list[str]) -> dict[str, ConfigEntry]:
    for name in names:
        if name not in entries:
            near = text.nearest(name, list(entries)) or " --all shows which there are."
            raise Refused(f"there is no setting {name!r}.{near}")
    return {name: entries[name] for name in names}


def _item(entry: ConfigEntry) -> dict[str, object]:
    return {
        "setting": entry.name,
        "value": entry.value,
        "from": entry.source_name,
        "type": entry.type_name,
        "is_default": entry.is_default,
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
        "documentation": entry.documentation,
        "synonyms": [
            {"name": each.name, "value": each.value, "from": SOURCE_NAMES.get(each.source)}
            for each in entry.synonyms
        ],
    }


def _shown(entry: ConfigEntry) -> str:
    if entry.is_sensitive or entry.value is None:
        return "(hidden)" if entry.is_sensitive else "-"
    return entry.value if entry.value else "''"


def _explain(context: Context, entry: ConfigEntry) -> None:
    terminal = context.terminal
    terminal.line(f"{entry.name} = {text.clean(_shown(entry))}")
    live = "needs a restart to change" if entry.is_read_only else "can be changed"
    terminal.line(f"    {entry.type_name}, from {entry.source_name}, {live}")
    if entry.documentation:
        words = " ".join(_TAGS.sub("", entry.documentation).split())
        for line in textwrap.wrap(text.clean(words), 92):
            terminal.line(f"    {line}")
    for each in entry.synonyms[1:]:
        source = SOURCE_NAMES.get(each.source, "unknown")
        terminal.line(f"    otherwise {text.clean(each.value or '-')} ({source}: {each.name})")
    terminal.line()
