"""`hermes up --demo` as an operator runs it: real broker, console and workload."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
READY = re.compile(
    r"HermesMQ is ready: Kafka (\S+) \| gateway (\S+) \| console (\S+) \| metrics (\S+) "
    r"\| sign in once: (\S+)"
)


class Whole:
    """One `hermes up --demo` on free ports; `output` grows in a file."""

    def __init__(self, directory: Path, free_port: Callable[[], int]) -> None:
        self.data = directory / "data"
        self._output = directory / "output.txt"
        ports = [
            word
            for flag in ("--kafka-port", "--gateway-port", "--console-port", "--metrics-port")
            for word in (flag, str(free_port()))
        ]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "broker", "up", "--demo"),
                    *("--data", str(self.data), *ports),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, pattern: re.Pattern[str] | str, seconds: float = 60) -> re.Match[str]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.output()):
                return found
            assert self.process.poll() is None, self.output()
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in {self.output()}")

    def children(self) -> dict[str, int]:
        """Process ids by what they are."""
        kinds = {
            "serve": "broker",
            "console": "console",
            "gateway": "gateway",
            "demo": "demo",
        }
        found = {}
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
                words = (directory / "cmdline").read_text().split("\0")
                if int(fields[1]) == self.process.pid and "--supervised" in words:
                    [kind] = [kinds[word] for word in words if word in kinds]
                    found[kind] = int(directory.name)
        return found


@pytest.fixture
def whole(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Whole]:
    run = Whole(tmp_path, free_port)
    yield run
    if run.process.poll() is None:
        run.process.terminate()
        run.process.wait(60)


def counted(metrics_url: str) -> float:
    """Records in all partitions of the demo's topic, by the broker's own count."""
    with urllib.request.urlopen(metrics_url, timeout=10) as answer:
        text = answer.read().decode()
    rows = re.findall(r'^hermes_\S*\{[^}]*topic="order-events"[^}]*\} (\S+)$', text, re.MULTILINE)
    return sum(map(float, rows))


@pytest.mark.timeout(300)
def test_it_serves_restarts_what_dies_and_stops_cleanly_under_load(whole: Whole) -> None:
    bootstrap, gateway, console, metrics, link = whole.wait_for(READY).groups()
    assert bootstrap.startswith("127.0.0.1:")
    assert status_of(f"{gateway}/readyz") == 200
    assert status_of(f"{console}/readyz") == 200
    assert status_of(link) in {200, 302}

    wait_until(lambda: "demo" in whole.children())
    wait_until(lambda: counted(metrics) > 0)
    os.kill(whole.children()["broker"], signal.SIGKILL)
    whole.wait_for(r"broker: process \d+ was killed by SIGKILL .* starts again in 0.5 s")
    wait_until(lambda: status_of(metrics.replace("/metrics", "/readyz")) == 200)
    demo = whole.children()["demo"]

    wait_until(lambda: counted(metrics) > 0)
    assert whole.children()["demo"] == demo  # the workload outlives its broker
    pids = list(whole.children().values())
    assert len(pids) == 4
    whole.process.send_signal(signal.SIGINT)
    assert whole.process.wait(60) == 0, whole.output()
    assert "killed" not in whole.output().rpartition("stopping")[2]
    assert whole.output().endswith(f"hermes up: all is stopped, the data is in {whole.data}\n")
    for log in (whole.data / "logs").glob("*.log"):
        assert "Fatal" not in log.read_text(errors="replace"), log.read_text(errors="replace")
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def status_of(url: str) -> int:
    """The status of a GET, without following redirects; 0 when nobody answers."""

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_arguments: object) -> None:
            return None

    try:
        with urllib.request.build_opener(NoRedirect).open(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait_until(is_true: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not _holds(is_true):
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.1)


def _holds(is_true: Callable[[], object]) -> bool:
    try:
        return bool(is_true())
    except (OSError, json.JSONDecodeError):
        return False
