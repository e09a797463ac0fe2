"""What can be done to the console's list of clusters: add, rename, move, remove, test.

Nothing here changes a cluster itself. Only an address that answers as Kafka's is entered; where the
console may connect at all is `reach`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from django.db import IntegrityError, transaction

from broker.client.blocking import (
    BlockingClient,
    BrokerRefusal,
    ClientError,
    Node,
    Unsupported,
)
from hermes_console import connect
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import Act, audited, require
from hermes_console.clusters import CLUSTER_ID_LENGTH_MAX, CLUSTERS_MAX, Cluster, ClusterKind
from hermes_console.environment import CLUSTER_NAME_PATTERN
from hermes_console.errors import Refused, sentence
from hermes_console.operations.clusters_probe import Probe, probe, probe_permission, read_addresses
from hermes_console.operations.clusters_skills import Skill, kind_of, skills_of, version_hint
from hermes_console.samples.models import ClusterLatest, GroupLatest
from hermes_console.samples.read import latest_cluster

TEST_CALL_MS_MAX: Final = 5_000
FAILED_PROBES_MAX: Final = 2
"""Each may take seconds: two are enough to say."""
NODES_CHECKED_MAX: Final = 100
Check: TypeAlias = Callable[[Cluster], object]
"""Raises Refused when the row is not the one that was looked at."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found at a cluster's addresses."""

    cluster_id: str
    kind: ClusterKind
    version: str
    nodes: tuple[str, ...]
    controller: str
    skills: tuple[Skill, ...]
    warnings: tuple[str, ...]


def cluster_json(cluster: Cluster) -> dict[str, Any]:
    """What the audit and the API say of a cluster."""
    return {
        "name": cluster.name,
        "bootstrap_address": cluster.bootstrap_address,
        "kind": cluster.kind,
        "is_from_environment": cluster.is_from_environment,
    }


def look_at(addresses: str, *, is_trusted: bool) -> Found:
    """What is there, within about 20 seconds at worst. Raises Refused with a sentence that says
    what is wrong with the address.
    """
    warnings = _probe_all(read_addresses(addresses), is_trusted=is_trusted)
    with connect.new_client(
        addresses, is_trusted=is_trusted, timeout_ms=TEST_CALL_MS_MAX
    ) as client:
        try:
            apis = client.api_versions()
            described = client.describe_cluster()
            _check_nodes(described.nodes, is_trusted=is_trusted)
            kind = kind_of(_setting_names(client, described.nodes))
        except BrokerRefusal as refusal:
            raise Refused(
                422, "cluster-refused", f"The cluster refused to say what it is: {refusal}."
            ) from refusal
        except ClientError as error:
            raise Refused(
                422, "cluster-unusable", f"Kafka answers there, but then: {sentence(str(error))}"
            ) from error
    addresses_of = {node.node_id: f"{node.host}:{node.port}" for node in described.nodes}
    return Found(
        cluster_id=described.cluster_id or "",
        kind=kind,
        version=version_hint(kind, apis),
        nodes=tuple(addresses_of.values()),
        controller=addresses_of.get(described.controller_id, ""),
        skills=tuple(skills_of(apis)),
        warnings=warnings,
    )


def look_again(actor: Actor, cluster: Cluster) -> Found:
    """What the cluster is now; its kind is corrected when that was wrong. Raises Refused."""
    require(actor, Right.VIEW, cluster=cluster, target=cluster.name)
    found = look_at(cluster.bootstrap_address, is_trusted=cluster.is_from_environment)
    known = found.cluster_id[:CLUSTER_ID_LENGTH_MAX]
    if (found.kind, known) != (cluster.kind, cluster.cluster_id):
        Cluster.objects.filter(pk=cluster.pk).update(kind=found.kind, cluster_id=known)
    return found


def add_cluster(actor: Actor, *, name: str, bootstrap_address: str) -> tuple[Cluster, Found]:
    """A new cluster that answers; the sampler finds it within seconds. Raises Refused."""
    with audited(actor, Right.CLUSTERS_WRITE, "cluster.add", cluster=None, target=name) as act:
        check_name(name)
        addresses = ",".join(read_addresses(bootstrap_address))
        _refuse_if_taken(name)
        _refuse_if_full(act)
        found = look_at(addresses, is_trusted=False)
        cluster = Cluster(
            name=name,
            bootstrap_address=addresses,
            kind=found.kind,
            cluster_id=found.cluster_id[:CLUSTER_ID_LENGTH_MAX],
        )
        with transaction.atomic():
            list(Cluster.objects.select_for_update().values_list("pk"))
            _refuse_if_full(act)
            _refuse_if_watched(cluster)
            _save(cluster)
        act.after = cluster_json(cluster)
    return cluster, found


def change_cluster(
    actor: Actor,
    cluster: Cluster,
    *,
    name: str | None = None,
    bootstrap_address: str | None = None,
    check: Check = lambda _: None,
) -> Cluster:
    """The cluster under another name or address; the new address has to answer. Its history, and
    tokens made for it, stay with it. `check` is given the row as it is, at the beginning and at the
    change. Raises what `check` raises, Refused, NotAllowed.
    """
    with audited(
        actor,
        Right.CLUSTERS_WRITE,
        "cluster.change",
        cluster=cluster,
        target=cluster.name,
        before=cluster_json(cluster),
    ) as act:
        check(cluster)
        _refuse_if_from_environment(act, cluster)
        changes: dict[str, str] = {}
        if name is not None and name != cluster.name:
            check_name(name)
            _refuse_if_taken(name)
            changes["name"] = name
        if bootstrap_address is not None:
            addresses = ",".join(read_addresses(bootstrap_address))
            if addresses != cluster.bootstrap_address:
                found = look_at(addresses, is_trusted=False)
                changes |= {
                    "kind": found.kind,
                    "bootstrap_address": addresses,
                    "cluster_id": found.cluster_id[:CLUSTER_ID_LENGTH_MAX],
                }
        with transaction.atomic():
            current = _locked(cluster)
            check(current)
            act.before = cluster_json(current)
            for field, value in changes.items():
                setattr(current, field, value)
            if "cluster_id" in changes:
                _refuse_if_watched(current)
            _save(current)
        act.after = cluster_json(current)
    return current


def remove_cluster(actor: Actor, cluster: Cluster, *, check: Check = lambda _: None) -> None:
    """Take it out of the console: what was known of it goes, its history ages out unseen, tokens
    for it reach it no more. The cluster
    itself, its topics and groups stay untouched. Raises Refused, NotAllowed.
    """
    with audited(
        actor,
        Right.CLUSTERS_WRITE,
        "cluster.remove",
        cluster=cluster,
        target=cluster.name,
        before=cluster_json(cluster),
    ) as act:
        _refuse_if_from_environment(act, cluster)
        key = cluster.pk
        with transaction.atomic():
            current = _locked(cluster)
            check(current)
            current.delete()
        connect.forget(cluster)
        for model in (ClusterLatest, GroupLatest):
            model.objects.filter(cluster_id=key).delete()


def check_name(name: str) -> None:
    """Raises Refused."""
    if not CLUSTER_NAME_PATTERN.fullmatch(name):
        raise Refused(
            422,
            "bad-cluster-name",
            f"{name[:80]!r} is no name for a cluster: use 1 to 63 of a-z, 0-9 and -.",
        )


def _probe_all(parts: list[str], *, is_trusted: bool) -> tuple[str, ...]:
    """One address that answers is enough: the problems of those before it. Raises Refused."""
    policy = None if is_trusted else connect.policy()
    failed: list[Probe] = []
    for part in parts:
        found = probe(part, policy)
        if found.code == "not-permitted":
            raise Refused(422, "address-not-permitted", found.problem)
        if not found.problem:
            return tuple(one.problem for one in failed)
        failed.append(found)
        if len(failed) == FAILED_PROBES_MAX:
            break
    raise Refused(422, f"address-{failed[0].code}", " ".join(one.problem for one in failed))


def _check_nodes(nodes: tuple[Node, ...], *, is_trusted: bool) -> None:
    """A cluster may name any address as its broker: none of ours, and none that it may not have.
    Raises Refused.
    """
    if is_trusted:
        return
    policy = connect.policy()
    for node in nodes[:NODES_CHECKED_MAX]:
        found = probe_permission(f"{node.host}:{node.port}", policy)
        if found:
            raise Refused(
                422,
                "address-not-permitted",
                f"The cluster says that its broker {node.node_id} is at {node.host}:{node.port}, "
                f"but {found}. Correct the broker's advertised address.",
            )


def _setting_names(client: BlockingClient, nodes: tuple[Node, ...]) -> list[str]:
    """Of one broker that can be asked; none when settings may not be seen. Raises ClientError."""
    if not nodes:
        return []
    try:
        return list(client.broker_configs(nodes[0].node_id))
    except (BrokerRefusal, Unsupported):
        return []


def _refuse_if_taken(name: str) -> None:
    if Cluster.objects.filter(name=name).exists():
        raise Refused(409, "cluster-exists", f"There is a cluster named {name} already.")


def _refuse_if_watched(cluster: Cluster) -> None:
    """The same cluster twice would count its lag and ask its brokers twice. The id that a cluster
    tells now counts, as it may have been made anew since it was added. Raises Refused.
    """
    if not cluster.cluster_id:
        return
    for other in Cluster.objects.exclude(pk=cluster.pk):
        snapshot = latest_cluster(other.pk)
        known = other.cluster_id if snapshot is None else snapshot.cluster_id or other.cluster_id
        if known == cluster.cluster_id:
            raise Refused(
                409,
                "cluster-watched",
                f"Cluster {other.name} at {other.bootstrap_address} is this very cluster (its id "
                f"is {known}), and is watched already.",
            )


def _locked(cluster: Cluster) -> Cluster:
    """The row as it is now, and nobody else changes it until the transaction's end. Raises Refused
    when it is gone.
    """
    current = Cluster.objects.select_for_update().filter(pk=cluster.pk).first()
    if current is None:
        raise Refused(404, "no-such-cluster", f"Cluster {cluster.name} was removed just now.")
    return current


def _refuse_if_full(act: Act) -> None:
    if Cluster.objects.count() >= CLUSTERS_MAX:
        act.refuse(
            f"The console watches at most {CLUSTERS_MAX} clusters: remove one first.",
            code="too-many-clusters",
        )


def _refuse_if_from_environment(act: Act, cluster: Cluster) -> None:
    if cluster.is_from_environment:
        act.refuse(
            f"{cluster.name} comes from HERMES_BOOTSTRAP and HERMES_CLUSTER_NAME: change those and "
            "start the console again.",
            code="from-environment",
        )


def _save(cluster: Cluster) -> None:
    try:
        with transaction.atomic():
            cluster.save()
    except IntegrityError as error:
        raise Refused(
            409, "cluster-exists", f"There is a cluster named {cluster.name} already."
        ) from error
