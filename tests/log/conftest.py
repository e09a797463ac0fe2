"""A data directory of its own for every test of the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.world import FaultyDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    """The real disk under a fresh directory, faults on demand."""
    made = FaultyDisk(tmp_path)
    yield made
    made.close()
