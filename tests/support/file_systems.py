"""Directories on file systems that tests need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.runtime.linux import is_syncfs_honest


@contextmanager
def where_syncfs_is_used(near: Path) -> Iterator[Path]:
    """`near`, or a directory in memory where a broker cannot believe syncfs there: in a container
    whose files lie on overlayfs.
    """
    if syncs_here(near):
        yield near
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


def syncs_here(directory: Path) -> bool:
    """Whether a broker would use syncfs in it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return is_syncfs_honest(descriptor)
    finally:
        os.close(descriptor)
