"""The names of channel layer groups."""

from __future__ import annotations

import hashlib


def cluster_group(cluster: str) -> str:
    """The group of all sockets that watch a cluster. Hashed: the name may be anything a browser
    sent.
    """
    return f"cluster.{hashlib.sha256(cluster.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
