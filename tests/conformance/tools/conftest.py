"""Apache Kafka's own command line tools, and the topics and groups that they look at."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.tools.java_tools import JavaTools

_numbers = itertools.count()


@pytest.fixture(scope="session")
def tools(bootstrap: str) -> Iterator[JavaTools]:
    """One JVM for all of them: starting one takes longer than most calls."""
    with JavaTools(bootstrap) as tools:
        yield tools


@pytest.fixture
def unused() -> Callable[[], str]:
    """A name for a topic or a group that nothing has yet."""
    return lambda: f"judged-{os.getpid()}-{next(_numbers)}"
