"""What every test directory may use. Each has its own `conftest.py` for what is its own."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from broker.verify.packages import install_command, missing_packages
from tests.support import ports


def pytest_configure() -> None:
    """Processes of the tests can be interrupted: a shell that runs the tests in the background has
    them ignore SIGINT, and every child would inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
