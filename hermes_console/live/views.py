"""A live view: what subscribers of one page get. Rendered once per sample and parameters, however
many watch.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from channels.db import database_sync_to_async

from hermes_console.clusters import CLUSTERS_MAX, Cluster
from hermes_console.content import LiveContent, Render
from hermes_console.samples.read import latest_cluster
from hermes_console.samples.snapshot import ClusterSnapshot

RENDERED_MAX: Final = 512


Key: TypeAlias = tuple[str, int, tuple[tuple[str, str], ...]]
"""Cluster, sample, parameters."""


@dataclass(slots=True)
class Frame:
    """What one sample looks like in one view; its text is made once for all who get it."""

    sequence: int
    at_ms: int
    content: LiveContent
    _text: str = ""

    def text(self, view: str) -> str:
        """The frame as it goes over the wire."""
        if not self._text:
            self._text = json.dumps(
                {
                    "type": "snapshot",
                    "view": view,
                    "sequence": str(self.sequence),
                    "at_ms": str(self.at_ms),
                    "html": self.content.html,
                    "points": self.content.points,
                },
                separators=(",", ":"),
            )
        return self._text


class LiveView:
    """Thread-safe, but for `newest`, which belongs to the loop. `frame` reads the database and
    renders templates: call it in a thread.
    """

    def __init__(self, render: Render) -> None:
        self._render = render
        self._rendered: OrderedDict[Key, Frame] = OrderedDict()
        self._sequences: dict[str, int] = {}
        self._lock = threading.Lock()
        self._on_its_way: dict[Key, asyncio.Future[Frame | None]] = {}

    async def newest(
        self, cluster_name: str, told: int, parameters: Mapping[str, str]
    ) -> Frame | None:
        """`frame` in a thread, once for all sockets that want the same at the same time. `told` is
        the newest sample that the caller has heard of: an older one may be on its way for others.
        Cancellation of one caller leaves the work to the others.
        """
        key = (cluster_name, told, tuple(sorted(parameters.items())))
        with self._lock:
            known = self._rendered.get(key)
        if known is not None:
            return known
        work = self._on_its_way.get(key)
        if work is None:
            work = asyncio.ensure_future(
                database_sync_to_async(self.frame)(cluster_name, parameters, told)
            )
            self._on_its_way[key] = work
            work.add_done_callback(lambda done: self._arrived(key, done))
        return await asyncio.shield(work)

    def _arrived(self, key: Key, done: asyncio.Future[Frame | None]) -> None:
        del self._on_its_way[key]
        if not done.cancelled():
            done.exception()  # those who wait get it; when all went away, nobody does

    def frame(
        self, cluster_name: str, parameters: Mapping[str, str], told: int = -1
    ) -> Frame | None:
        """None when there is no such cluster or no sample of it yet. `told`: a sample that is
        stored, so that what is already known of it need not be asked for again.
        """
        found = newest_sample(cluster_name, told)
        if found is None:
            return None
        cluster, snapshot = found
        key = (cluster.name, snapshot.sequence, tuple(sorted(parameters.items())))
        with self._lock:
            known = self._rendered.get(key)
        if known is not None:
            return known
        content = self._render(cluster, snapshot, parameters)
        frame = Frame(snapshot.sequence, snapshot.at_ms, content)
        with self._lock:
            self._forget_others(cluster.name, frame.sequence)
            self._rendered[key] = frame
            while len(self._rendered) > RENDERED_MAX:
                self._rendered.popitem(last=False)
        return frame

    def _forget_others(self, cluster_name: str, sequence: int) -> None:
        """Nobody asks for frames of earlier samples again; those of a removed cluster that had the
        same name have other numbers, too.
        """
        if self._sequences.get(cluster_name) == sequence:
            return
        self._sequences[cluster_name] = sequence
        others = [key for key in self._rendered if key[0] == cluster_name and key[1] != sequence]
        for key in others:
            del self._rendered[key]


_samples: OrderedDict[str, tuple[Cluster, ClusterSnapshot]] = OrderedDict()
_samples_lock = threading.Lock()


def newest_sample(cluster_name: str, told: int) -> tuple[Cluster, ClusterSnapshot] | None:
    """The cluster and its newest sample; asked for once per sample, whatever is made of it."""
    with _samples_lock:
        known = _samples.get(cluster_name)
    if known is not None and known[1].sequence == told:
        return known
    cluster = Cluster.objects.filter(name=cluster_name).first()
    snapshot = None if cluster is None else latest_cluster(cluster.pk)
    if cluster is None or snapshot is None:
        return None
    with _samples_lock:
        _samples[cluster_name] = (cluster, snapshot)
        while len(_samples) > CLUSTERS_MAX:
            _samples.popitem(last=False)
    return cluster, snapshot
