"""What every test directory may use. Each has its own `conftest.py` for what is its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.verify.packages import install_command, missing_packages
from tests.support import ports


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """A function that gives a TCP port of the loopback address which was free a moment ago."""
    return ports.free_port


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked `apt("kcat")` fails, and says how to install it, where kcat is missing."""
    for mark in item.iter_markers("apt"):
        missing = missing_packages(mark.args)
        if missing:
            pytest.fail(f"needs {', '.join(missing)}: {install_command(missing)}", pytrace=False)
