"""Clients of clusters: one per process and cluster, shared by all requests, replaced when the
cluster's address changes, closed when it is removed; another, with less patience, while the cluster
is away.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cache
from typing import Final

from django.conf import settings

from broker.client.blocking import BlockingClient
from hermes_console import reach
from hermes_console.clusters import CLUSTERS_MAX, Cluster
from hermes_console.lending import lend_connections
from hermes_console.samples.read import latest_cluster

CALL_MS_MAX: Final = 10_000
AWAY_CALL_MS_MAX: Final = 2_000
"""While the sampler cannot reach the cluster: nobody should wait long for what will hardly come."""
CLIENT_ID: Final = "hermes-console"

_clients: OrderedDict[tuple[int, str, int], BlockingClient] = OrderedDict()
_lock = threading.Lock()
_own_ports: set[int] = set()


def client_for(cluster: Cluster) -> BlockingClient:
    """The process's client of `cluster`. Each call on it ends within CALL_MS_MAX (AWAY_CALL_MS_MAX
    when the last sample failed), by a result or a ClientError. Do not close it. Whoever asks for it
    is about to wait: its connection to the database is lent to others.
    """
    snapshot = latest_cluster(cluster.pk)
    is_away = snapshot is not None and snapshot.trouble != ""
    timeout_ms = AWAY_CALL_MS_MAX if is_away else CALL_MS_MAX
    key = (cluster.pk, cluster.bootstrap_address, timeout_ms)
    stale: list[BlockingClient] = []
    with _lock:
        client = _clients.get(key)
        if client is None:
            outdated = [one for one in _clients if one[0] == cluster.pk and one[1] != key[1]]
            stale.extend(_clients.pop(one) for one in outdated)
            client = _clients[key] = new_client(
                cluster.bootstrap_address,
                is_trusted=cluster.is_from_environment,
                timeout_ms=timeout_ms,
            )
            while len(_clients) > 2 * CLUSTERS_MAX:
                stale.append(_clients.popitem(last=False)[1])
        else:
            _clients.move_to_end(key)
    for one in stale:
        one.close()
    lend_connections()
    return client


def new_client(
    bootstrap_address: str, *, is_trusted: bool, timeout_ms: int = CALL_MS_MAX
) -> BlockingClient:
    """A client of one's own, to be closed by the caller. What is not trusted (not from the
    environment) is connected to only where `reach` permits it.
    """
    return BlockingClient(
        bootstrap_address,
        client_id=CLIENT_ID,
        timeout_ms=timeout_ms,
        permit=None if is_trusted else policy().permit,
    )


def policy() -> reach.Policy:
    """Where added clusters may be: made once per process."""
    return _policy(tuple(sorted(_own_ports)))


def note_own_port(port: int) -> None:
    """This process listens there itself: no cluster is."""
    _own_ports.add(port)


@cache
def _policy(own_ports: tuple[int, ...]) -> reach.Policy:
    return reach.policy_for(settings.ENVIRONMENT, own_ports)


def forget(cluster: Cluster) -> None:
    """Close the clients of a cluster that is removed."""
    with _lock:
        gone = [_clients.pop(key) for key in list(_clients) if key[0] == cluster.pk]
    for client in gone:
        client.close()
