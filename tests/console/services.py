"""PostgreSQL and Redis of their own for a test, on free ports, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

READY_S_MAX = 20.0


@contextmanager
def postgresql(port: int) -> Iterator[str]:
    """The URL of an empty database. The server refuses to run as root: then it is `postgres`."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    user = "postgres" if os.geteuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="hermes-pg-", dir="/tmp"))
    if user is not None:
        shutil.chown(directory, user, user)
    data = directory / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-A", "trust", "-U", "hermes", "--no-sync"],
        user=user,
        cwd=directory,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    options = ["-c", "fsync=off", "-c", f"unix_socket_directories={directory}"]
    process = subprocess.Popen(
        [programs / "postgres", "-D", data, "-p", str(port), *options],
        user=user,
        cwd=directory,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield f"postgresql://hermes@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(READY_S_MAX)
        shutil.rmtree(directory)


@contextmanager
def redis(port: int, directory: Path) -> Iterator[str]:
    """The URL of an empty Redis."""
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--dir", directory],
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(READY_S_MAX)


def _wait_for(port: int) -> None:
    end = time.monotonic() + READY_S_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < end, f"nothing listens on port {port}"
            time.sleep(0.05)
        else:
            return


FreePort = Callable[[], int]
