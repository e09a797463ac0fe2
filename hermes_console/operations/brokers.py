"""The brokers of a cluster: who they are, what they hold, how they are set; and changing what can
be changed while they run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from broker.client.blocking import BrokerRefusal, ClusterDescription, LogDir, Node
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import audited
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.metricsaddress import MetricsUnread
from hermes_console.operations.broker_metrics import BrokerMetrics, fetch_metrics
from hermes_console.operations.configs import (
    BROKER_LIVE_SOURCE,
    SETTINGS_BUSY,
    Change,
    Setting,
    audited_values,
    find_changes,
    read_settings,
)
from hermes_console.operations.topics_catalogue import read_catalogue
from hermes_console.operations.topics_read import Gaps
from hermes_console.undo.lock import broker_settings_lock
from hermes_console.words import used_percent


class Scope(StrEnum):
    """For whom a live setting is changed."""

    BROKER = "broker"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Directory:
    """A data directory; None is unknown. `log_bytes` is what the replicas in it take."""

    path: str
    log_bytes: int
    replica_count: int
    total_bytes: int | None
    free_bytes: int | None
    trouble: str

    @property
    def used_percent(self) -> int | None:
        if self.total_bytes is None or self.free_bytes is None:
            return None
        return used_percent(self.total_bytes - self.free_bytes, self.free_bytes)


@dataclass(frozen=True, slots=True)
class Broker:
    """One node. `directories` is None when it does not tell."""

    node: Node
    is_controller: bool
    leader_count: int | None
    replica_count: int | None
    directories: tuple[Directory, ...] | None

    @property
    def log_bytes(self) -> int | None:
        return None if self.directories is None else sum(one.log_bytes for one in self.directories)


@dataclass(frozen=True, slots=True)
class Brokers:
    """All nodes; `gaps` says why numbers are missing."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    gaps: tuple[str, ...]


def read_brokers(cluster: Cluster) -> Brokers:
    """Every node by its id. Raises ClientError when the cluster does not answer at all."""
    client, gaps = client_for(cluster), Gaps()
    description = client.describe_cluster()
    catalogue = gaps.ask("Partitions are unknown", lambda: read_catalogue(cluster), None)
    directories: dict[int, list[LogDir] | BrokerRefusal] = gaps.ask(
        "Directories are unknown", client.describe_log_dirs, {}
    )
    for answer in directories.values():
        if isinstance(answer, BrokerRefusal):
            gaps.add("Directories are unknown", answer)
    brokers = tuple(
        Broker(
            node=node,
            is_controller=node.node_id == description.controller_id,
            leader_count=catalogue.leaders.get(node.node_id, 0) if catalogue else None,
            replica_count=catalogue.replicas.get(node.node_id, 0) if catalogue else None,
            directories=_directories(directories.get(node.node_id)),
        )
        for node in sorted(description.nodes)
    )
    return Brokers(description.cluster_id, brokers, tuple(gaps.sentences))


def read_broker(cluster: Cluster, node_id: int) -> tuple[Broker, tuple[str, ...]]:
    """One node and why numbers are missing. Raises Refused (404), ClientError."""
    found = read_brokers(cluster)
    for broker in found.brokers:
        if broker.node.node_id == node_id:
            return broker, found.gaps
    raise _no_such_broker(cluster, node_id)


def read_broker_settings(cluster: Cluster, node_id: int) -> list[Setting]:
    """Raises Refused (404), ClientError."""
    description: ClusterDescription = client_for(cluster).describe_cluster()
    if node_id not in {node.node_id for node in description.nodes}:
        raise _no_such_broker(cluster, node_id)
    entries = client_for(cluster).broker_configs(node_id)
    return read_settings(entries.values(), here=BROKER_LIVE_SOURCE)


def read_broker_metrics_of(cluster: Cluster) -> tuple[BrokerMetrics | None, str]:
    """The numbers, or None and why there are none."""
    if not cluster.metrics_address:
        return None, "This cluster has no metrics address: latencies and connections are unknown."
    try:
        return fetch_metrics(cluster.metrics_address), ""
    except MetricsUnread as error:
        return None, str(error)


def broker_settings_etag(settings: list[Setting]) -> str:
    """Changes with every value that can be set live."""
    values = sorted((one.name, one.value, one.source.key) for one in settings)
    return hashlib.sha256(json.dumps(values).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def check_broker_settings(
    cluster: Cluster, node_id: int, wanted: Mapping[str, str | None], *, scope: Scope
) -> list[Change]:
    """What `change_broker_settings` would change, after the broker has found it valid."""
    changes = _changes(read_broker_settings(cluster, node_id), wanted, scope)
    _alter(cluster, node_id, changes, scope, validate_only=True)
    return changes


def change_broker_settings(
    actor: Actor,
    cluster: Cluster,
    node_id: int,
    wanted: Mapping[str, str | None],
    *,
    scope: Scope,
    etag: str | None,
    check: Callable[[], object] = lambda: None,
) -> list[Change]:
    """What was changed, of one broker or of all. `etag` None: whatever holds now is changed, unless
    `check` raises. Nobody else changes brokers' settings from the console between the look and the
    change. Raises Refused (412 when the settings are no longer those of `etag`, 409 while somebody
    else's change is on its way), NotAllowed, ClientError.
    """
    target = f"broker {node_id}" if scope is Scope.BROKER else "all brokers"
    with (
        audited(
            actor, Right.CLUSTERS_WRITE, "broker.configure", cluster=cluster, target=target
        ) as act,
        broker_settings_lock(cluster.pk) as lease,
    ):
        if not lease:
            act.refuse(SETTINGS_BUSY, code="broker-busy")
        check()
        settings = read_broker_settings(cluster, node_id)
        if etag is not None and etag != broker_settings_etag(settings):
            act.refuse(
                "The settings were changed by somebody else since you read them. "
                "Look at them as they are now, then decide again.",
                status=412,
                code="settings-changed",
            )
        changes = _changes(settings, wanted, scope)
        act.before, after = audited_values(settings, changes)
        if changes and not lease.hold_on():
            act.refuse(SETTINGS_BUSY, code="broker-busy")
        _alter(cluster, node_id, changes, scope, validate_only=False)
        act.after = after
    return changes


def _changes(
    settings: list[Setting], wanted: Mapping[str, str | None], scope: Scope
) -> list[Change]:
    """Raises Refused for a setting that needs a restart."""
    known = {one.name: one for one in settings}
    for name in wanted:
        if name in known and known[name].is_read_only:
            raise Refused(
                422,
                "needs-restart",
                f"{name} cannot be changed while the broker runs: set it in the broker's file, "
                "environment or flags, then restart the broker.",
            )
    if scope is Scope.BROKER:
        return find_changes(settings, wanted)
    return [
        Change(name, one.value if one else None, after, one.inherited if one else None)
        for name, after in wanted.items()
        if (one := known.get(name)) is None or after is None or after != one.value
    ]


def _alter(
    cluster: Cluster, node_id: int, changes: list[Change], scope: Scope, *, validate_only: bool
) -> None:
    if not changes:
        return
    values = {one.name: one.after for one in changes}
    client = client_for(cluster)
    if scope is Scope.BROKER:
        client.alter_broker_config(values, node_id=node_id, validate_only=validate_only)
    else:
        client.alter_broker_config(values, validate_only=validate_only)


def _directories(answer: list[LogDir] | BrokerRefusal | None) -> tuple[Directory, ...] | None:
    if answer is None or isinstance(answer, BrokerRefusal):
        return None
    return tuple(
        Directory(
            path=one.path,
            log_bytes=sum(replica.size_bytes for replica in one.replicas.values()),
            replica_count=len(one.replicas),
            total_bytes=one.total_bytes if one.total_bytes >= 0 else None,
            free_bytes=one.usable_bytes if one.usable_bytes >= 0 else None,
            trouble=str(one.error) if one.error else "",
        )
        for one in answer
    )


def _no_such_broker(cluster: Cluster, node_id: int) -> Refused:
    return Refused(
        404, "broker-not-found", f"There is no broker {node_id} in cluster {cluster.name}."
    )
