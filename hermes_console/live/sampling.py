"""Keeps one sampler thread per cluster of the `clusters` table; the lease in the database decides
which of them look.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
from typing import Final

from channels.layers import get_channel_layer
from django.db import DatabaseError, connections

from hermes_console.clusters import CLUSTERS_MAX, Cluster
from hermes_console.environment import Environment
from hermes_console.lending import lend_connections
from hermes_console.live.sampler import ClusterSampler
from hermes_console.live.topic import cluster_group

CLUSTERS_EVERY_S: Final = 3.0
STOP_S_MAX: Final = 3.0

log = logging.getLogger(__name__)


class Sampling:
    """Started and stopped by the console's runner."""

    def __init__(self, environment: Environment) -> None:
        self._is_embedded = environment.is_embedded
        self._owner = f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._samplers: dict[int, ClusterSampler] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampling", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """Ends every sampler at its next step; leases are given back."""
        self._stopping.set()
        self._thread.join(STOP_S_MAX)
        for sampler in self._samplers.values():
            sampler.stop()
        for sampler in self._samplers.values():
            sampler.join(STOP_S_MAX)

    def _run(self) -> None:
        while True:
            try:
                self._follow_table()
                lend_connections()
            except DatabaseError:
                log.exception("cannot read the clusters; trying again in %s s", CLUSTERS_EVERY_S)
                connections.close_all()
            if self._stopping.wait(CLUSTERS_EVERY_S):
                break
        connections.close_all()

    def _follow_table(self) -> None:
        """Start samplers for new rows, end those of changed or deleted ones."""
        rows = {cluster.pk: cluster for cluster in Cluster.objects.all()[:CLUSTERS_MAX]}
        for key, sampler in list(self._samplers.items()):
            row = rows.get(key)
            if row is None or not sampler.fits(row):
                sampler.stop()
                del self._samplers[key]
        for key, row in rows.items():
            if key not in self._samplers:
                self._samplers[key] = ClusterSampler(
                    row, self._owner, self._notify, is_embedded=self._is_embedded
                )
                self._samplers[key].start()

    def _notify(self, cluster_name: str, sequence: int) -> None:
        """From a sampler's thread into the loop: the in-memory layer belongs to it."""
        layer = get_channel_layer()
        assert self._loop is not None, "started before any sampler"
        asyncio.run_coroutine_threadsafe(
            layer.group_send(
                cluster_group(cluster_name), {"type": "sample.ready", "sequence": str(sequence)}
            ),
            self._loop,
        )
