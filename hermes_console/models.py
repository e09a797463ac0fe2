"""Django looks here for this app's models; each lives in the module that is named after it."""

from __future__ import annotations

from hermes_console.clusters import Cluster

__all__ = ["Cluster"]
