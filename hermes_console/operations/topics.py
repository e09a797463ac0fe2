"""What can be done to topics: one function per act, called by pages and API alike.

Each checks the right, is audited and refuses internal topics. `topic_id` guards acts that were
looked at before they are confirmed: a topic that was created anew in between is another topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.client.blocking import BrokerRefusal, TopicPartition, TopicView
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import audited
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.operations.configs import (
    SETTINGS_BUSY,
    Change,
    audited_values,
    find_changes,
    settings_etag,
)
from hermes_console.operations.topics_catalogue import forget_catalogue, is_internal
from hermes_console.operations.topics_read import (
    read_topic_settings,
    read_topic_view,
)
from hermes_console.undo.lock import settings_lock

PARTITIONS_MAX: Final = 10_000
REPLICAS_MAX: Final = 32_767
SETTINGS_MAX: Final = 64
BROKER_DECIDES: Final = -1
NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def name_problem(name: str) -> str:
    """Why a topic cannot be called so, "" when it can (but for names that collide)."""
    if not name:
        return "A topic needs a name."
    if name in {".", ".."}:
        return "A topic cannot be called '.' or '..'."
    if len(name) > 249:
        return f"The name has {len(name)} characters; 249 are allowed."
    if not NAME.fullmatch(name):
        return "The name may have letters of ASCII, digits, '.', '_' and '-' only."
    return ""


def create_topic(
    actor: Actor,
    cluster: Cluster,
    name: str,
    *,
    partition_count: int = BROKER_DECIDES,
    replication_factor: int = BROKER_DECIDES,
    configs: Mapping[str, str],
) -> TopicView:
    """The new topic. BROKER_DECIDES leaves a number to the cluster. Raises Refused, NotAllowed,
    ClientError (the broker's reasons: the name collides, a setting is bad, …).
    """
    after = {
        "partitions": None if partition_count < 0 else partition_count,
        "replication_factor": None if replication_factor < 0 else replication_factor,
        "configs": dict(configs),
    }
    with audited(actor, Right.TOPICS_WRITE, "topic.create", cluster=cluster, target=name) as act:
        problem = name_problem(name) or _numbers_problem(partition_count, replication_factor)
        if problem:
            act.refuse(problem, status=422, code="invalid-topic")
        client_for(cluster).create_topic(
            name,
            partition_count=partition_count,
            replication_factor=replication_factor,
            configs=configs,
        )
        forget_catalogue(cluster)
        act.after = after
    return read_topic_view(cluster, name)


def check_new_topic(
    cluster: Cluster,
    name: str,
    *,
    partition_count: int,
    replication_factor: int,
    configs: Mapping[str, str],
) -> None:
    """Raises ClientError or Refused with the reason why `create_topic` would be refused."""
    problem = name_problem(name) or _numbers_problem(partition_count, replication_factor)
    if problem:
        raise Refused(422, "invalid-topic", problem)
    client_for(cluster).create_topic(
        name,
        partition_count=partition_count,
        replication_factor=replication_factor,
        configs=configs,
        validate_only=True,
    )


def grow_topic(
    actor: Actor, cluster: Cluster, name: str, partition_count: int, *, topic_id: str | None = None
) -> TopicView:
    """The topic with `partition_count` partitions; keys move to others. Raises Refused,
    NotAllowed, ClientError.
    """
    with audited(actor, Right.TOPICS_WRITE, "topic.grow", cluster=cluster, target=name) as act:
        view = _own_topic(cluster, name, topic_id)
        now = len(view.partitions)
        act.before = {"partitions": now}
        if not now < partition_count <= PARTITIONS_MAX:
            act.refuse(
                f"The topic has {now:,} partitions; choose {now + 1:,} to {PARTITIONS_MAX:,}. "
                "Partitions cannot be taken away.",
                status=422,
                code="invalid-partitions",
            )
        client_for(cluster).create_partitions(name, partition_count)
        forget_catalogue(cluster)
        act.after = {"partitions": partition_count}
    return read_topic_view(cluster, name)


def change_settings(
    actor: Actor,
    cluster: Cluster,
    name: str,
    wanted: Mapping[str, str | None],
    *,
    etag: str | None,
    check: Callable[[], object] = lambda: None,
) -> list[Change]:
    """What was changed (None in `wanted` takes an override away). `etag` None: whatever holds now
    is changed, unless `check` raises. Nobody else changes them from the console between the look
    and the change. Raises Refused (412 when the settings are no longer those of `etag`, 409 while
    somebody else's change is on its way), NotAllowed, ClientError.
    """
    with (
        audited(actor, Right.TOPICS_WRITE, "topic.configure", cluster=cluster, target=name) as act,
        settings_lock(cluster.pk, name) as lease,
    ):
        if not lease:
            act.refuse(SETTINGS_BUSY, code="topic-busy")
        check()
        view = _own_topic(cluster, name, None)
        settings = read_topic_settings(cluster, name)
        if etag is not None and etag != settings_etag(view.topic_id, settings):
            raise SettingsChanged(name)
        changes = find_changes(settings, wanted)
        act.before, after = audited_values(settings, changes)
        if changes and not lease.hold_on():
            act.refuse(SETTINGS_BUSY, code="topic-busy")
        if changes:
            client_for(cluster).alter_topic_config(name, {one.name: one.after for one in changes})
        act.after = after
    return changes


def check_settings(cluster: Cluster, name: str, wanted: Mapping[str, str | None]) -> list[Change]:
    """What `change_settings` would change, after the broker has found it valid. Raises Refused,
    ClientError with the broker's reason.
    """
    _own_topic(cluster, name, None)
    changes = find_changes(read_topic_settings(cluster, name), wanted)
    if changes:
        client_for(cluster).alter_topic_config(
            name, {one.name: one.after for one in changes}, validate_only=True
        )
    return changes


class SettingsChanged(Refused):
    """Somebody else changed the settings since they were read."""

    def __init__(self, name: str) -> None:
        super().__init__(
            412,
            "settings-changed",
            f"The settings of {name} were changed by somebody else since you read them. "
            "Look at them as they are now, then decide again.",
        )


def delete_topic(
    actor: Actor,
    cluster: Cluster,
    name: str,
    *,
    topic_id: str | None = None,
    confirmation: str | None = None,
) -> None:
    """The topic and all its records are gone. `confirmation`, unless None, must be its name. Raises
    Refused, NotAllowed, ClientError.
    """
    with audited(actor, Right.TOPICS_WRITE, "topic.delete", cluster=cluster, target=name) as act:
        view = _own_topic(cluster, name, topic_id)
        act.before = {"topic_id": view.topic_id.hex(), "partitions": len(view.partitions)}
        if confirmation is not None and confirmation != name:
            act.refuse(
                "The typed name is not the topic's: nothing was deleted.",
                status=422,
                code="not-confirmed",
            )
        client_for(cluster).delete_topics([name])
        forget_catalogue(cluster)
        act.after = {"deleted": True}


def delete_records(
    actor: Actor,
    cluster: Cluster,
    name: str,
    before: Mapping[int, int],
    *,
    topic_id: str | None = None,
    confirmation: str | None = None,
) -> dict[int, int | BrokerRefusal]:
    """Per partition its new start, or why nothing was deleted there. `before`: partition → the
    first offset that stays. Raises Refused, NotAllowed, ClientError.
    """
    with audited(
        actor, Right.TOPICS_WRITE, "topic.delete-records", cluster=cluster, target=name
    ) as act:
        view = _own_topic(cluster, name, topic_id)
        act.before = {"before_offsets": {str(key): str(value) for key, value in before.items()}}
        if confirmation is not None and confirmation != name:
            act.refuse(
                "The typed name is not the topic's: nothing was deleted.",
                status=422,
                code="not-confirmed",
            )
        _check_partitions(view, before)
        answers = client_for(cluster).delete_records(
            {TopicPartition(name, key): offset for key, offset in before.items()}
        )
        found = {one.partition: answer for one, answer in answers.items()}
        act.after = {
            "start_offsets": {
                str(key): str(one) for key, one in found.items() if isinstance(one, int)
            },
            "refused": {
                str(key): str(one) for key, one in found.items() if not isinstance(one, int)
            },
        }
        refusals = [one for one in found.values() if isinstance(one, BrokerRefusal)]
        if refusals and len(refusals) == len(found):
            raise refusals[0]
    return found


def _check_partitions(view: TopicView, before: Mapping[int, int]) -> None:
    known = {one.partition for one in view.partitions}
    unknown = sorted(before.keys() - known)
    if unknown:
        raise Refused(
            422,
            "unknown-partition",
            f"The topic has no partition {unknown[0]}; it has 0 to {len(known) - 1}.",
        )
    if not before:
        raise Refused(422, "no-partition", "Name at least one partition and offset.")


def _own_topic(cluster: Cluster, name: str, topic_id: str | None) -> TopicView:
    """The topic, when it may be changed and is still the one that was looked at."""
    view = read_topic_view(cluster, name)
    if is_internal(view):
        raise Refused(
            409,
            "internal-topic",
            f"{name} belongs to the platform itself: it is neither changed nor deleted from here.",
        )
    if topic_id and view.topic_id.hex() != topic_id:
        raise Refused(
            409,
            "topic-recreated",
            f"{name} was deleted and created anew since the page was opened: "
            "nothing was done. Look at it again.",
        )
    return view


def _numbers_problem(partition_count: int, replication_factor: int) -> str:
    if partition_count != BROKER_DECIDES and not 1 <= partition_count <= PARTITIONS_MAX:
        return f"A topic can have 1 to {PARTITIONS_MAX:,} partitions, not {partition_count:,}."
    if replication_factor != BROKER_DECIDES and not 1 <= replication_factor <= REPLICAS_MAX:
        return f"The number of replicas is at least 1, not {replication_factor:,}."
    return ""


def named(changes: Iterable[Change]) -> str:
    """`retention.ms, segment.ms`."""
    return ", ".join(one.name for one in changes)
