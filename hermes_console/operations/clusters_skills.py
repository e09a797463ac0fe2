"""What a cluster is and can do, told by the APIs that it offers. Pure tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from broker.client.blocking import ApiRange
from hermes_console.clusters import ClusterKind

FETCH: Final = 1
OURS_MARK: Final = "hermes."
"""Only our broker has settings that begin so."""


class Row(NamedTuple):
    """A thing to do, and the keys of the APIs that it takes, all of them."""

    title: str
    api_keys: tuple[int, ...]
    is_used_here: bool = True


class Skill(NamedTuple):
    """Whether the cluster can do it; `is_used_here` False: the console has no page for it yet."""

    title: str
    is_there: bool
    is_used_here: bool
    missing: str


SKILLS: Final = (
    Row("See brokers, topics and partitions", (3, 60)),
    Row("Read messages", (1, 2)),
    Row("Produce messages", (0,)),
    Row("Create topics", (19,)),
    Row("Delete topics", (20,)),
    Row("Add partitions", (37,)),
    Row("See settings and where they come from", (32,)),
    Row("Change settings one by one", (44,)),
    Row("Delete records", (21,)),
    Row("See sizes on disk", (35,)),
    Row("See groups, members and lag", (15, 16, 9, 2)),
    Row("Reset a group's offsets", (8, 9)),
    Row("Delete groups", (42,)),
    Row("Forget a group's offsets of a topic", (47,)),
    Row("See active producers", (61,)),
    Row("Idempotent producers", (22,), is_used_here=False),
    Row("Transactions", (24, 26), is_used_here=False),
    Row("Elect leaders", (43,), is_used_here=False),
    Row("Move partitions between brokers", (45,), is_used_here=False),
    Row("Access control lists", (29, 30, 31), is_used_here=False),
    Row("Quotas", (48, 49), is_used_here=False),
    Row("Groups of the newer protocol (KIP-848)", (68, 69), is_used_here=False),
    Row("Share groups", (76, 78), is_used_here=False),
)

VERSIONS: Final = (
    (88, "4.1 or newer"),
    (76, "4.0 or newer"),
    (71, "3.7 to 3.9"),
    (65, "3.0 to 3.6"),
    (60, "2.8"),
)
"""The first API key that is there tells Apache Kafka's version."""


def skills_of(apis: Sequence[ApiRange]) -> list[Skill]:
    """The table for a cluster that offers `apis`. What the console uses needs a version that its
    client speaks, too.
    """
    offered = {one.api_key for one in apis}
    spoken = {one.api_key for one in apis if one.used_version is not None}
    return [_skill(row, offered, spoken) for row in SKILLS]


def version_hint(kind: ClusterKind, apis: Sequence[ApiRange]) -> str:
    """What the APIs tell of the version; "" when they tell nothing."""
    if kind == ClusterKind.OURS:
        return ""
    keys = {one.api_key for one in apis}
    return next((words for key, words in VERSIONS if key in keys), "older than 2.8")


def kind_of(setting_names: Collection[str]) -> ClusterKind:
    """Whose broker it is, by the names of its settings."""
    is_ours = any(name.startswith(OURS_MARK) for name in setting_names)
    return ClusterKind.OURS if is_ours else ClusterKind.KAFKA


def _skill(row: Row, offered: Collection[int], spoken: Collection[int]) -> Skill:
    absent = [key for key in row.api_keys if key not in offered]
    unspoken = [key for key in row.api_keys if key in offered and key not in spoken]
    if absent:
        missing = f"the cluster does not offer {_keys(absent)}"
    elif unspoken and row.is_used_here:
        missing = f"no common version of {_keys(unspoken)}"
    else:
        missing = ""
    return Skill(row.title, not missing, row.is_used_here, missing)


def _keys(keys: Sequence[int]) -> str:
    return ", ".join(f"API {key}" for key in keys)
