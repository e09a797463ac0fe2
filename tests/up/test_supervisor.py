"""The supervisor with real processes: a home whose broker and console are small scripts."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

FAKE_CHILD = """
import http.server, os, signal, sys, threading, time

def serve(port, name):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
        def log_message(self, *args): pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    def stop(*_):
        with open("order.txt", "a") as file: file.write(name + "\\n")
        os._exit(0)
    signal.signal(signal.SIGTERM, stop)
    def watch():
        sys.stdin.buffer.read()
        os.kill(os.getpid(), 15)
    threading.Thread(target=watch, daemon=True).start()
    print(name, "runs as", os.getpid(), flush=True)
    with open(name + ".pid", "w") as file: file.write(str(os.getpid()))
    server.serve_forever()
"""

FAKE_BROKER = """
import sys
sys.path.insert(0, ".")
import fake
command, arguments = sys.argv[1], sys.argv[2:]
if command == "serve":
    BROKER_START
    fake.serve(int(arguments[arguments.index("--hermes-metrics-port") + 1]), "broker")
elif command == "gateway":
    fake.serve(int(arguments[arguments.index("--port") + 1]), "gateway")
else:
    fake.serve(0, "demo")
"""

FAKE_MANAGE = """
import sys
import fake
assert sys.argv[1] == "console"
CONSOLE_START
if "--signin-link-file" in sys.argv:
    from pathlib import Path
    Path(sys.argv[sys.argv.index("--signin-link-file") + 1]).write_text("http://127.0.0.1:1/once")
else:
    print("again", flush=True)
fake.serve(int(sys.argv[sys.argv.index("--port") + 1]), "console")
"""


class Up:
    """One run of the supervisor's command line on a fake home."""

    def __init__(self, home: Path, free_port: Callable[[], int]) -> None:
        self.home = home
        self.ports = {name: free_port() for name in ("kafka", "gateway", "console", "metrics")}
        self.lines: list[str] = []
        self.process: asyncio.subprocess.Process | None = None

    def prepare(self, *, broker_start: str = "pass", console_start: str = "") -> None:
        (self.home / "broker").mkdir()
        (self.home / "broker" / "__init__.py").touch()
        (self.home / "broker" / "__main__.py").write_text(
            FAKE_BROKER.replace("BROKER_START", broker_start)
        )
        (self.home / "fake.py").write_text(FAKE_CHILD)
        (self.home / "manage.py").write_text(FAKE_MANAGE.replace("CONSOLE_START", console_start))

    async def start(self, *flags: str) -> None:
        code = (
            "import sys, pathlib, broker.up.command as command\n"
            "command.HOME = pathlib.Path(sys.argv.pop(1))\n"
            "sys.exit(command.main(sys.argv[1:]))"
        )
        ports = [w for name, n in self.ports.items() for w in (f"--{name}-port", str(n))]
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, str(self.home), "--data", str(self.home / "data")),
            *(*ports, *flags),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def line(self, pattern: str, seconds: float = 15) -> str:
        """The next line of output that matches; everything read is kept in `lines`."""
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds):
            while line := (await self.process.stdout.readline()).decode():
                self.lines.append(line)
                if re.search(pattern, line):
                    return line
        raise AssertionError(f"no {pattern!r} in {self.lines}")

    async def end(self, seconds: float = 15) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds):
            self.lines += (await self.process.stdout.read()).decode().splitlines()
            return await self.process.wait()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def pid(self, name: str) -> int:
        return int((self.home / f"{name}.pid").read_text())


@pytest.fixture
async def up(tmp_path: Path, free_port: Callable[[], int]) -> AsyncIterator[Up]:
    run = Up(tmp_path, free_port)
    yield run
    if run.process is not None and run.process.returncode is None:
        run.process.terminate()
        await run.end()


async def test_one_line_says_ready_and_sigterm_stops_demo_gateway_console_broker(up: Up) -> None:
    up.prepare()
    await up.start("--demo")
    line = await up.line("HermesMQ is ready")
    assert f"127.0.0.1:{up.ports['kafka']}" in line
    assert f"gateway http://127.0.0.1:{up.ports['gateway']}" in line
    assert f"console http://127.0.0.1:{up.ports['console']}" in line
    assert "http://127.0.0.1:1/once" in line
    await until((up.home / "demo.pid").exists)
    up.signal(signal.SIGTERM)
    assert await up.end() == 0
    assert (up.home / "order.txt").read_text().split() == ["demo", "gateway", "console", "broker"]
    assert up.lines[-6:] == [
        "stopping demo, gateway, console, broker (once more to kill) …",
        *("demo: stopped", "gateway: stopped", "console: stopped", "broker: stopped"),
        f"hermes up: all is stopped, the data is in {up.home / 'data'}",
    ]


async def test_a_killed_broker_is_started_again_and_the_reason_is_printed(up: Up) -> None:
    up.prepare()
    await up.start()
    await up.line("HermesMQ is ready")
    first = up.pid("broker")
    os.kill(first, signal.SIGKILL)
    line = await up.line("broker")
    assert f"process {first} was killed by SIGKILL" in line
    assert "starts again in 0.5 s" in line
    await until(lambda: up.pid("broker") != first)
    line = await up.line("answers again")
    assert f"broker: answers again (process {up.pid('broker')})" in line


async def test_a_child_that_cannot_start_fails_the_command_with_its_last_lines(up: Up) -> None:
    up.prepare(broker_start="sys.exit('the data directory belongs to another cluster')")
    await up.start()
    assert await up.end() == 1
    text = "\n".join(up.lines)
    assert "broker did not start" in text
    assert "the data directory belongs to another cluster" in text
    assert "Traceback" not in text


async def test_a_console_that_cannot_start_stops_the_broker_too(up: Up) -> None:
    up.prepare(console_start="sys.exit('no such column')")
    await up.start()
    assert await up.end() == 1
    assert "console did not start" in "\n".join(up.lines)
    assert "no such column" in "\n".join(up.lines)
    assert not any(up.home.glob("*.pid")) or not is_alive(up.pid("broker"))


async def test_only_the_first_start_of_the_console_makes_a_sign_in_link(up: Up) -> None:
    up.prepare()
    await up.start()
    await up.line("HermesMQ is ready")
    os.kill(up.pid("console"), signal.SIGKILL)
    await up.line("console: process")
    log = up.home / "data" / "logs" / "console.log"
    await until(lambda: log.read_text().split("\n").count("again") == 1)
    assert "/once" in "\n".join(up.lines)
    assert "/once" not in log.read_text(), "a log is shared, a link is not"
    assert not (up.home / "data" / "signin-link").exists()
    assert log.stat().st_mode & 0o777 == 0o600


async def test_a_second_supervisor_on_the_directory_is_refused_by_name(up: Up) -> None:
    up.prepare()
    await up.start()
    await up.line("HermesMQ is ready")
    assert up.process is not None
    first = up.process.pid
    other = Up(up.home, int)
    other.ports = up.ports
    await other.start()
    assert await other.end() == 1
    assert f"process {first} already runs `hermes up`" in "\n".join(other.lines)


async def test_a_taken_port_is_named_and_nothing_is_started(up: Up) -> None:
    up.prepare()
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", up.ports["console"])
    async with server:
        await up.start()
        assert await up.end() == 1
    assert f"taken by process {os.getpid()}" in "\n".join(up.lines)
    assert not (up.home / "broker.pid").exists()


async def test_children_stop_when_the_supervisor_is_killed(up: Up) -> None:
    up.prepare()
    await up.start()
    await up.line("HermesMQ is ready")
    pids = [up.pid("broker"), up.pid("console")]
    up.signal(signal.SIGKILL)
    await up.end()
    await until(lambda: not any(is_alive(pid) for pid in pids))


async def test_a_second_signal_kills_children_that_do_not_stop(up: Up) -> None:
    deaf = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); s.signal = lambda *_: None"
    up.prepare(broker_start=deaf)
    await up.start()
    await up.line("HermesMQ is ready")
    broker = up.pid("broker")
    up.signal(signal.SIGINT)
    await up.line("stopping")
    await asyncio.sleep(0.5)
    assert is_alive(broker)
    up.signal(signal.SIGINT)
    assert await up.end(5) == 130
    assert up.lines[-1] == "hermes up: killed broker"
    await until(lambda: not is_alive(broker))


async def until(is_true: Callable[[], bool], seconds: float = 10) -> None:
    """Returns when the condition holds. Fails after `seconds`."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "the condition never held"
        await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
