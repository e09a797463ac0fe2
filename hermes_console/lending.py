"""Connections to the database that all threads of the process share: whoever waits for something
else lends its own.

A thread has what it was given until its request ends. Clusters that do not answer, and threads that
wake now and then, would keep it from everybody else.
"""

from __future__ import annotations

from django.db import connections


def lend_connections() -> None:
    """Give back what this thread has of a pool, unless it is in a transaction. A connection of its
    own stays: to make one anew would cost more.
    """
    for connection in connections.all(initialized_only=True):
        if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
            connection.close()
