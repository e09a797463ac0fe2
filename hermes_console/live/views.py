"""A live view: what subscribers of one page get. Rendered once per sample and parameters, however
many watch.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hermes_console.clusters import Cluster
from hermes_console.content import LiveContent, Render
from hermes_console.samples.read import latest_cluster

RENDERED_MAX: Final = 256


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
    """Thread-safe. `frame` reads the database and renders templates: call it in a thread."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._rendered: OrderedDict[tuple[object, ...], Frame] = OrderedDict()
        self._lock = threading.Lock()

    def known(
        self, cluster_name: str, sequence: int, parameters: Mapping[str, str]
    ) -> Frame | None:
        """The frame of that sample when somebody got it already: no database, no thread."""
        with self._lock:
            return self._rendered.get((cluster_name, sequence, *sorted(parameters.items())))

    def frame(self, cluster_name: str, parameters: Mapping[str, str]) -> Frame | None:
        """None when there is no such cluster or no sample of it yet."""
        cluster = Cluster.objects.filter(name=cluster_name).first()
        snapshot = None if cluster is None else latest_cluster(cluster.pk)
        if cluster is None or snapshot is None:
            return None
        key = (cluster.name, snapshot.sequence, *sorted(parameters.items()))
        with self._lock:
            known = self._rendered.get(key)
        if known is not None:
            return known
        content = self._render(cluster, snapshot, parameters)
        frame = Frame(snapshot.sequence, snapshot.at_ms, content)
        with self._lock:
            self._rendered[key] = frame
            while len(self._rendered) > RENDERED_MAX:
                self._rendered.popitem(last=False)
        return frame
