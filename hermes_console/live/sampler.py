"""One cluster's sampler: a thread that looks every second while it holds the lease, judges, stores
and tells the sockets.

It never ends by itself: a cluster that cannot be reached is a snapshot too (`trouble`), and a
failing database is tried again. A large cluster is looked at less often, so that sampling takes at
most CPU_SHARE_MAX of a core. A connection that is shared with requests is lent back whenever the
thread waits: there may be more clusters than connections.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from django.db import DatabaseError, connections

from hermes_console.clusters import Cluster
from hermes_console.lending import lend_connections
from hermes_console.live.clusterstate import ClusterState
from hermes_console.live.look import ClusterLook, LookFailed
from hermes_console.samples.lease import hold_lease, release_lease
from hermes_console.samples.models import ClusterLatest
from hermes_console.samples.store import SampleStore

EVERY_S: Final = 1.0
CPU_SHARE_MAX: Final = 0.15

log = logging.getLogger(__name__)
Notify = Callable[[str, int], None]


class ClusterSampler:
    """`notify(cluster name, sequence)` is called after each stored snapshot."""

    def __init__(self, cluster: Cluster, owner: str, notify: Notify, *, is_embedded: bool) -> None:
        self._cluster = cluster
        self._owner = owner
        self._notify = notify
        self._is_embedded = is_embedded
        self._store = SampleStore(cluster.pk)
        self._look: ClusterLook | None = None
        self._state: ClusterState | None = None
        self._sequence_seen = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"sampler-{cluster.name}", daemon=True
        )

    def fits(self, row: Cluster) -> bool:
        """Whether `row` still names the addresses that this sampler looks at."""
        return (row.name, row.bootstrap_address, row.metrics_address) == (
            self._cluster.name,
            self._cluster.bootstrap_address,
            self._cluster.metrics_address,
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        busy_s = took_s = 0.0
        while not self._stopping.wait(pause_s(time.time(), busy_s, took_s)):
            began_s, began_at_s = self._cpu_s(), time.monotonic()
            try:
                self._step()
                lend_connections()
            except DatabaseError:
                log.exception("cluster %s: the sample could not be stored", self._cluster.name)
                connections.close_all()
            except Exception:
                log.exception("cluster %s: a sample failed", self._cluster.name)
                self._let_go()
            busy_s = max(0.0, self._cpu_s() - began_s)
            took_s = time.monotonic() - began_at_s
        self._let_go()
        try:
            release_lease(self._cluster.pk, self._owner)
        except DatabaseError:
            log.warning("cluster %s: the lease ends by itself", self._cluster.name)
        connections.close_all()

    def _cpu_s(self) -> float:
        """Of this thread and of the client's, which a look keeps as busy."""
        return time.thread_time() + (0.0 if self._look is None else self._look.cpu_s())

    def _step(self) -> None:
        if not hold_lease(self._cluster.pk, self._owner, _now_ms()):
            self._let_go()
            if self._is_embedded:
                self._follow_other_process()
            return
        if self._state is None:
            self._state = ClusterState(self._store.load())
        if self._look is None:
            self._look = ClusterLook(
                self._cluster.bootstrap_address,
                self._cluster.metrics_address,
                is_trusted=self._cluster.is_from_environment,
            )
        lend_connections()
        try:
            observed = self._look.look()
        except LookFailed as failure:
            snapshot = self._state.miss(_now_ms(), str(failure))
            self._store.write_latest(snapshot)
        else:
            snapshot, details = self._state.absorb(observed)
            self._store.write(snapshot, details)
        self._notify(self._cluster.name, snapshot.sequence)

    def _follow_other_process(self) -> None:
        """The in-memory layer ends at this process: pass on what the lease's holder stored."""
        sequence = (
            ClusterLatest.objects.filter(cluster_id=self._cluster.pk)
            .values_list("sequence", flat=True)
            .first()
        )
        if sequence is not None and sequence != self._sequence_seen:
            self._sequence_seen = sequence
            self._notify(self._cluster.name, sequence)

    def _let_go(self) -> None:
        if self._look is not None:
            self._look.close()
        self._look, self._state = None, None
        self._store = SampleStore(self._cluster.pk)


def pause_s(now_s: float, busy_s: float, took_s: float) -> float:
    """Seconds until the next look: at a full EVERY_S, after a rest that keeps the thread, which was
    busy for `busy_s` of the `took_s` that the last look took, at CPU_SHARE_MAX of a core however
    large the cluster is.
    """
    rest_s = max(0.0, busy_s / CPU_SHARE_MAX - took_s)
    due_s = now_s + rest_s
    return rest_s + EVERY_S - due_s % EVERY_S


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
