"""How a command meets the rest of the system: exit codes, pipes, signals, terminals, addresses."""

from __future__ import annotations

import http.server
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from broker.client.blocking import BlockingClient
from tests.commands.conftest import ROOT, Run, eventually


@pytest.fixture
def web_server() -> Iterator[str]:
    """host:port of something that is no broker."""
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def silent_server() -> Iterator[str]:
    """host:port of something that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_nobody_at_the_address(run: Run, free_port: Callable[[], int]) -> None:
    address = f"127.0.0.1:{free_port()}"
    ended = run("topics", "list", "--bootstrap", address)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith(f"hermes: no broker answers at {address}: ")
    assert "Connection refused" in ended.err
    assert "--bootstrap HOST:PORT" in ended.err
    as_json = run("topics", "list", "--bootstrap", address, "--json")
    assert as_json.items == []
    assert '"item": "' + address in as_json.out


def test_another_program_at_the_address(run: Run, web_server: str) -> None:
    ended = run("groups", "list", "--bootstrap", web_server)
    assert ended.code == 3
    assert "is no Kafka broker" in ended.err
    assert "another program's" in ended.err


def test_a_broker_that_speaks_tls(run: Run) -> None:
    def answer(listening: socket.socket) -> None:
        with listening.accept()[0] as peer:
            peer.recv(1)
            peer.sendall(b"\x15\x03\x01\x00\x02\x02\x46")
            peer.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        ended = run("topics", "list", "--bootstrap", f"127.0.0.1:{listening.getsockname()[1]}")
        thread.join()
    assert ended.code == 3
    assert "speaks TLS" in ended.err


def test_an_address_that_never_answers(run: Run, silent_server: str) -> None:
    begin = time.monotonic()
    ended = run("topics", "list", "--bootstrap", silent_server, "--timeout", "0.6")
    assert ended.code == 3
    assert time.monotonic() - begin < 20
    assert "did not answer" in ended.err


@pytest.mark.parametrize("address", ["nohost", "host:port", "host:99999", ","])
def test_an_address_that_is_none(run: Run, address: str) -> None:
    ended = run("topics", "list", "--bootstrap", address)
    assert (ended.code, ended.out) == (2, "")
    assert "--bootstrap" in ended.err


def test_a_second_address_is_tried(run: Run, bootstrap: str, free_port: Callable[[], int]) -> None:
    both = f"127.0.0.1:{free_port()},{bootstrap}"
    assert run("cluster", "describe", "--bootstrap", both).code == 0


def test_a_reader_that_goes_away_is_no_error(
    environment: dict[str, str], client: BlockingClient, topic: str
) -> None:
    for _ in range(3):
        client.produce(topic, b"x" * 500_000, partition=0)
    with subprocess.Popen(
        [sys.executable, "-m", "broker", "consume", topic],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.read(10)
        reader.stdout.close()
        client.produce(topic, b"x" * 500_000, partition=0)
        assert reader.wait(30) == 141
        assert reader.stderr.read() == b""


def in_shell(environment: dict[str, str], line: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a line of sh in which $hermes is the command."""
    return subprocess.run(
        ["sh", "-c", line],
        env={**environment, "hermes": f"{sys.executable} -m broker"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_help_that_nobody_reads_is_no_error(environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "broker", "topics", "--help"],
        env=environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("target", "reason"),
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
)
@pytest.mark.parametrize(
    "words", ["topics list", "topics list --json", "consume TOPIC --exit", "topics --help"]
)
def test_output_that_cannot_be_written_is_said(
    environment: dict[str, str],
    client: BlockingClient,
    topic: str,
    words: str,
    target: str,
    reason: str,
) -> None:
    client.produce(topic, b"x", partition=0)
    done = in_shell(environment, f"$hermes {words.replace('TOPIC', topic)} {target}")
    assert done.stderr.decode() == f"hermes: the output cannot be written: {reason}\n"
    assert done.returncode == 1


def test_a_closed_input_is_an_empty_one(environment: dict[str, str], topic: str) -> None:
    done = in_shell(environment, f"$hermes produce {topic} <&-")
    assert (done.returncode, done.stderr) == (0, b"")
    done = in_shell(environment, f"$hermes topics delete {topic} <&-")
    assert done.returncode == 1
    assert b"nobody is there" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_whole_in_every_encoding(
    run_process: Run, client: BlockingClient, topic: str, encoding: str
) -> None:
    client.produce(topic, "é€😀".encode(), partition=0)
    ended = run_process("consume", topic, "--json", "--exit", PYTHONIOENCODING=encoding)
    assert [row["value"] for row in ended.lines] == ["é€😀"]


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "broker.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from broker.__main__ import run
sys.argv[1:] = ["version"]
sys.exit(run())
"""


def test_an_interrupt_while_modules_load_leaves_no_traceback() -> None:
    code = INTERRUPTED_WHILE_LOADING
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
    words[-1] = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN){code}"
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupted_member_leaves_its_group_and_has_committed(
    environment: dict[str, str], client: BlockingClient, topic: str
) -> None:
    client.produce(topic, b"seen", partition=0)
    with subprocess.Popen(
        [sys.executable, "-m", "broker", "consume", topic, "--group", topic],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as member:
        assert member.stdout is not None
        assert member.stderr is not None
        assert member.stdout.readline() == b"seen\n"
        member.send_signal(signal.SIGINT)
        assert member.wait(30) == 130
        assert member.stderr.read() == b""
    assert client.describe_groups([topic])[0].state == "Empty"
    found = client.committed_offsets([topic])[topic]
    assert isinstance(found, dict)
    assert [row.offset for where, row in found.items() if where.partition == 0] == [1]


def test_an_interrupted_producer_stops_while_it_waits_for_input(
    environment: dict[str, str], client: BlockingClient, topic: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "broker", "produce", topic, "-p", "0"],
        env=environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as producer:
        assert producer.stdin is not None
        assert producer.stderr is not None
        producer.stdin.write(b"typed\n")
        producer.stdin.flush()
        eventually(lambda: len(client.read(topic, 0, 0, count_max=1, wait_ms=0)) == 1)
        producer.send_signal(signal.SIGINT)
        assert producer.wait(30) == 130
        assert b"1 record stored" in producer.stderr.read()


@pytest.mark.parametrize(("typed", "code"), [("right", 0), ("wrong", 1)])
def test_a_terminal_is_asked_for_the_name(
    environment: dict[str, str], client: BlockingClient, topic: str, typed: str, code: int
) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "broker", "topics", "delete", topic],
        env=environment,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        os.write(ours, f"{topic if typed == 'right' else 'yes'}\n".encode())
        out, err = process.communicate(timeout=30)
        os.close(ours)
    assert process.returncode == code
    assert f"Type '{topic}' to delete it: " in err.decode()
    assert (b"deleted" in out) == (code == 0)
    is_there = topic in [view.name for view in client.list_topics()]
    if code:
        assert is_there
        assert b"Nothing was changed" in err
    else:
        eventually(lambda: topic not in [view.name for view in client.list_topics()])


def test_the_launcher_is_quick(environment: dict[str, str]) -> None:
    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def once() -> float:
        begin = spent()
        done = subprocess.run(
            [ROOT / "hermes", "topics", "list"], env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return spent() - begin

    assert min(once() for _ in range(3)) < 0.8  # measured: 0.35 to 0.45


def test_help_and_wrong_usage_load_no_client() -> None:
    code = (
        "import sys\n"
        "from broker.cli import main\n"
        "assert main(['topics', 'list', '--help']) == 0\n"
        "assert main(['topics', 'list', '--nonsense']) == 2\n"
        "assert 'broker.client.cluster' not in sys.modules\n"
        "assert 'asyncio' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
