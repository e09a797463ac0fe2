"""Which settings a new topic can be given, with documentation and what holds without them."""

from __future__ import annotations

from typing import Final

from broker.client.blocking import ClientError
from hermes_console.clusters import Cluster
from hermes_console.operations.configs import (
    CHOICES,
    COMMON,
    DOCUMENTATION,
    KINDS,
    UNKNOWN_SOURCE,
    Kind,
    Setting,
    unit_of,
)
from hermes_console.operations.topics_catalogue import TopicEntry, read_catalogue
from hermes_console.operations.topics_read import read_topic_settings

WHOLE: Final = 5


def new_topic_settings(cluster: Cluster) -> list[Setting]:
    """The settings of a topic that exists, as they are without overrides; of a cluster without any
    topic those that every cluster has, their values unknown. Raises ClientError.
    """
    model = _model(read_catalogue(cluster).entries)
    if model is None:
        return _known_settings()
    try:
        found = read_topic_settings(cluster, model.name)
    except ClientError:
        return _known_settings()
    return [
        Setting(
            name=one.name,
            value=one.inherited,
            kind=one.kind,
            unit=one.unit,
            choices=one.choices,
            documentation=one.documentation,
            source=one.inherited_source,
            is_set_here=False,
            is_read_only=False,
            is_sensitive=one.is_sensitive,
            inherited=one.inherited,
            inherited_source=one.inherited_source,
        )
        for one in found
    ]


def _model(entries: tuple[TopicEntry, ...]) -> TopicEntry | None:
    return min(entries, key=lambda one: (one.is_internal, one.name), default=None)


def _known_settings() -> list[Setting]:
    return [
        Setting(
            name=name,
            value=None,
            kind=Kind.CHOICE if name in CHOICES else KINDS[WHOLE],
            unit=unit_of(name),
            choices=CHOICES.get(name, ()),
            documentation=DOCUMENTATION[name],
            source=UNKNOWN_SOURCE,
            is_set_here=False,
            is_read_only=False,
            is_sensitive=False,
            inherited=None,
            inherited_source=UNKNOWN_SOURCE,
        )
        for name in COMMON
        if name in DOCUMENTATION
    ]
