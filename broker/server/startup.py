"""The one exception of a start that cannot be."""

from __future__ import annotations


class StartupError(Exception):
    """The broker cannot start: one sentence for the operator that says what was found and what
    to do.
    """
