"""The console's own process: ready, unreachable clusters, stopping under load, taken ports."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.console.console_process import ROOT, ConsoleProcess


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def nobody(free_port: Callable[[], int]) -> str:
    return f"127.0.0.1:{free_port()}"


def test_fresh_directory_becomes_a_console_that_answers(tmp_path: Path, nobody: str) -> None:
    with ConsoleProcess(tmp_path / "data", bootstrap=nobody) as console:
        assert get(console.address + "/healthz") == (200, "ok\n")
        assert get(console.address + "/readyz") == (200, "ready\n")
        assert get(console.address + "/nope")[0] == 404
        assert "One-time sign-in" in get(console.sign_in_link)[1]
        status, css = get(console.address + "/static/console/css/tokens.css")
        assert (status, "--accent" in css) == (200, True)
        assert console.process is not None
        console.process.send_signal(signal.SIGTERM)
        assert console.wait() == 0
        secret = tmp_path / "data" / "console" / "secret.key"
        assert secret.stat().st_mode & 0o077 == 0


def test_end_of_the_supervisors_pipe_ends_the_console(tmp_path: Path, nobody: str) -> None:
    with ConsoleProcess(tmp_path / "data", bootstrap=nobody) as console:
        assert console.process is not None
        assert console.process.stdin is not None
        console.process.stdin.close()
        assert console.wait() == 0


def test_stop_under_load_is_clean_and_soon(tmp_path: Path, nobody: str) -> None:
    statuses: list[int] = []
    stopping = threading.Event()

    def load(address: str) -> None:
        while not stopping.is_set():
            try:
                statuses.append(get(address + "/accounts/sign-in")[0])
            except (OSError, ValueError):
                return

    with ConsoleProcess(tmp_path / "data", bootstrap=nobody) as console:
        threads = [threading.Thread(target=load, args=(console.address,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        assert console.process is not None
        began = time.monotonic()
        console.process.send_signal(signal.SIGTERM)
        assert console.wait() == 0
        took_s = time.monotonic() - began
        stopping.set()
        for thread in threads:
            thread.join()
        assert set(statuses) == {200}
        assert took_s < 9
        assert "Traceback" not in console.log


def test_taken_port_is_one_sentence_and_not_a_trace(tmp_path: Path, nobody: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "manage.py", "console", "--port", str(port)],
            cwd=ROOT,
            env={"HERMES_DATA_DIR": str(tmp_path), "HERMES_BOOTSTRAP": nobody, "PATH": "/usr/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in ended.stderr
    assert "choose another --port" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_bad_variable_is_named_at_start(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "manage.py", "console"],
        cwd=ROOT,
        env={"HERMES_DATA_DIR": str(tmp_path), "HERMES_BOOTSTRAP": "nonsense", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "HERMES_BOOTSTRAP has 'nonsense'; expected host:port, several joined by commas"
    ]
