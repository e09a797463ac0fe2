"""The settings of a topic or a broker as people read and edit them: kind of field, unit, words,
where a value comes from, what a form would change. Pure.

The cluster tells names, types, documentation and sources (DescribeConfigs); only what the protocol
cannot tell (the choices of a setting, which settings matter most) is a table here.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from broker.client.blocking import ConfigEntry
from hermes_console import words

INT64_MAX: Final = 2**63 - 1
TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
VALUE_LENGTH_MAX: Final = 4_096
NO_LIMIT: Final = "no limit"
SETTINGS_BUSY: Final = "Somebody changes these settings right now. Try again."
NOT_SHOWN: Final = "(not shown)"
NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


class Kind(StrEnum):
    """Which field a value is typed into."""

    BOOLEAN = "boolean"
    WHOLE = "whole"
    NUMBER = "number"
    CHOICE = "choice"
    TEXT = "text"


class Source(NamedTuple):
    """Where a value comes from: `key` for the API, `word` for people."""

    key: str
    word: str


UNKNOWN_SOURCE: Final = Source("unknown", "unknown")
SOURCES: Final[Mapping[int, Source]] = {
    1: Source("topic", "this topic"),
    2: Source("broker", "this broker, set live"),
    3: Source("cluster", "all brokers, set live"),
    4: Source("static", "broker's file, environment or flag"),
    5: Source("default", "default"),
}
TOPIC_SOURCE: Final = 1
BROKER_LIVE_SOURCE: Final = 2
KINDS: Final[Mapping[int, Kind]] = {
    1: Kind.BOOLEAN,
    3: Kind.WHOLE,
    4: Kind.WHOLE,
    5: Kind.WHOLE,
    6: Kind.NUMBER,
}
COMMON: Final = (
    "retention.ms",
    "retention.bytes",
    "cleanup.policy",
    "max.message.bytes",
    "min.insync.replicas",
    "durability",
    "message.timestamp.type",
    "delivery.delay.ms",
    "delivery.ttl.ms",
    "segment.bytes",
    "segment.ms",
)
"""Settings that are asked for most, in the order of forms; the others follow by name."""
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "compression.type": ("producer", "uncompressed", "gzip", "lz4", "snappy", "zstd"),
    "durability": ("fsync", "replicated"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "record.validation": ("header", "full"),
}
DOCUMENTATION: Final[Mapping[str, str]] = {
    "retention.ms": "How long records are kept, in milliseconds; -1 keeps them for ever.",
    "retention.bytes": "How many bytes of a partition are kept; -1 sets no limit.",
    "cleanup.policy": "What happens to old records: delete drops them by age and size, compact "
    "keeps the newest record of each key.",
    "max.message.bytes": "The largest record batch accepted, in bytes.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all.",
    "message.timestamp.type": "Whose clock a record's timestamp shows: the producer's or the "
    "broker's.",
    "segment.bytes": "A segment is closed before it would grow beyond this size.",
    "segment.ms": "A segment is closed this long after its first append.",
}
"""Used where the cluster cannot be asked because it has no topic to describe yet."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting with its effective value (None: secret). `inherited` is what holds without the
    value that is set here; `is_set_here` tells an override of this very topic or broker.
    """

    name: str
    value: str | None
    kind: Kind
    unit: str
    choices: tuple[str, ...]
    documentation: str
    source: Source
    is_set_here: bool
    is_read_only: bool
    is_sensitive: bool
    inherited: str | None
    inherited_source: Source

    @property
    def in_words(self) -> str:
        """What the number means, "" where the value says it itself."""
        return value_in_words(self.name, self.value)

    @property
    def inherited_in_words(self) -> str:
        return value_in_words(self.name, self.inherited)


class Change(NamedTuple):
    """A value before and after; `after` None takes the override away, then `inherited` holds."""

    name: str
    before: str | None
    after: str | None
    inherited: str | None

    @property
    def before_in_words(self) -> str:
        return value_in_words(self.name, self.before)

    @property
    def after_in_words(self) -> str:
        return value_in_words(self.name, self.inherited if self.after is None else self.after)


def read_settings(entries: Iterable[ConfigEntry], *, here: int = TOPIC_SOURCE) -> list[Setting]:
    """The settings in the order of forms. `here` is the source that an edit would write."""
    return sorted((_setting(one, here) for one in entries), key=_rank)


def _setting(entry: ConfigEntry, here: int) -> Setting:
    below = next((one for one in entry.synonyms if one[2] != here), None)
    choices = CHOICES.get(entry.name, ())
    if choices and entry.value is not None and entry.value not in choices:
        choices = (entry.value, *choices)
    is_set_here = entry.source == here
    if not is_set_here:
        inherited, inherited_source = entry.value, entry.source
    else:
        inherited, inherited_source = (below[1], below[2]) if below else (None, 0)
    return Setting(
        name=entry.name,
        value=entry.value,
        kind=Kind.CHOICE if choices else KINDS.get(entry.config_type, Kind.TEXT),
        unit=unit_of(entry.name),
        choices=choices,
        documentation=plain_text(entry.documentation or "") or DOCUMENTATION.get(entry.name, ""),
        source=SOURCES.get(entry.source, UNKNOWN_SOURCE),
        is_set_here=is_set_here,
        is_read_only=entry.is_read_only,
        is_sensitive=entry.is_sensitive,
        inherited=inherited,
        inherited_source=SOURCES.get(inherited_source, UNKNOWN_SOURCE),
    )


def _rank(setting: Setting) -> tuple[int, str]:
    place = COMMON.index(setting.name) if setting.name in COMMON else len(COMMON)
    return place, setting.name


def plain_text(documentation: str) -> str:
    """Apache Kafka's documentation is HTML; here it is text: no tag is left, entities are what they
    stand for.
    """
    return " ".join(html.unescape(TAG.sub(" ", documentation)).split())


def unit_of(name: str) -> str:
    """What a number counts, told by the last part of its name: "ms", "bytes" or ""."""
    last = name.rpartition(".")[2]
    return last if last in {"ms", "bytes"} else ""


def value_in_words(name: str, value: str | None) -> str:
    """`7 d` for 604800000 of a setting in ms, `no limit` for -1, "" for what says it itself (as
    20 ms do).
    """
    unit = unit_of(name)
    if not unit or value is None or not NUMBER.fullmatch(value):
        return ""
    number = int(value)
    if number < 0 or number >= INT64_MAX:
        return NO_LIMIT
    if unit == "bytes":
        return words.size(number)
    return "" if 0 < number < 1000 else words.duration(number / 1000)


def find_changes(settings: Iterable[Setting], wanted: Mapping[str, str | None]) -> list[Change]:
    """What writing `wanted` (setting → value, None: take the override away) would change.

    A value that holds already changes nothing, nor does taking away what is not set here.
    """
    known = {one.name: one for one in settings}
    changes = []
    for name, after in wanted.items():
        one = known.get(name)
        before = one.value if one else None
        if one is not None and (not one.is_set_here if after is None else after == before):
            continue
        changes.append(Change(name, before, after, one.inherited if one else None))
    return changes


def audited_values(
    settings: Iterable[Setting], changes: Iterable[Change]
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """(before, after) of `changes` as the audit keeps them: of a secret, and of a setting that the
    cluster did not describe, only that it was set.
    """
    open_names = {one.name for one in settings if not one.is_sensitive}
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    for one in changes:
        for side, value in ((before, one.before), (after, one.after)):
            is_shown = value is None or one.name in open_names
            side[one.name] = value if is_shown else NOT_SHOWN
    return before, after


def retention_in_words(retention_ms: str | None, retention_bytes: str | None, policy: str) -> str:
    """`7 d`, `7 d or 1.0 GiB a partition`, `the newest of each key`, `for ever`."""
    parts = []
    if "compact" in policy:
        parts.append("newest of each key")
    if "delete" in policy:
        age = value_in_words("retention.ms", retention_ms)
        size = value_in_words("retention.bytes", retention_bytes)
        limits = [age] if age and age != NO_LIMIT else []
        if size and size != NO_LIMIT:
            limits.append(f"{size} a partition")
        parts.append(" or ".join(limits) or "for ever")
    return ", ".join(parts) or words.UNKNOWN


def window_in_words(delay_ms: str | None, ttl_ms: str | None) -> str:
    """`shows a message after 1 min`, `… until it is 1 d old`; empty without a delivery window."""
    parts = []
    if delay_ms not in {None, "0"}:
        parts.append(f"shows a message after {value_in_words('delivery.delay.ms', delay_ms)}")
    if ttl_ms not in {None, "-1"}:
        begin = "" if parts else "shows a message "
        parts.append(f"{begin}until it is {value_in_words('delivery.ttl.ms', ttl_ms)} old")
    return ", ".join(parts)


def settings_etag(topic_id: bytes, settings: Iterable[Setting]) -> str:
    """Changes with every override of this topic, and when the topic is created anew."""
    overrides = sorted((one.name, one.value) for one in settings if one.is_set_here)
    text = json.dumps([topic_id.hex(), overrides])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
