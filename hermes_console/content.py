"""What a live view sends: pieces of HTML by the id of the element they replace, and points for
charts.

Pages produce it and sockets send it; neither knows the other, `asgi.py` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_console.clusters import Cluster
from hermes_console.samples.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class LiveContent:
    """`points` is JSON-ready: every 64-bit integer in it is a string."""

    html: Mapping[str, str]
    points: Mapping[str, Any] = field(default_factory=dict)


Render = Callable[[Cluster, ClusterSnapshot, Mapping[str, str]], LiveContent]
"""(cluster, its newest snapshot, the subscription's parameters) → what to send. Runs in a thread.
"""
