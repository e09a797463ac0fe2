"""Kinds of flags that both commands of the bench have, for their parsers."""

from __future__ import annotations

import argparse
import math


def positive_number(word: str) -> float:
    """A finite number above 0. Raises ArgumentTypeError."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a number above 0, found {word!r}")
    return value


def positive_count(word: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError."""
    try:
        value = int(word)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, found {word!r}")
    return value
