import os
import socket
import subprocess
import sys
from collections.abc import Callable

from broker.runtime.port_holder import find_holder
from broker.up.holders import is_free, taken_ports
from broker.up.options import Port


def test_the_holder_of_a_taken_port_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        [sentence] = taken_ports([Port("Kafka", "--kafka-port", number)])
    assert f"port {number} (Kafka) is taken by process {os.getpid()}" in sentence
    assert "python" in sentence
    assert f"kill {os.getpid()}" in sentence
    assert "hermes up --kafka-port" in sentence


def test_a_server_on_every_address_is_found_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        number = server.getsockname()[1]
        assert not is_free(number)
        holder = find_holder(number)
    assert holder is not None
    assert holder.pid == os.getpid()


def test_free_ports_are_no_problem_and_have_no_holder(free_port: Callable[[], int]) -> None:
    number = free_port()
    assert taken_ports([Port("Kafka", "--kafka-port", number)]) == []
    assert find_holder(number) is None


def test_one_number_for_two_ports_is_refused(free_port: Callable[[], int]) -> None:
    number = free_port()
    [sentence] = taken_ports([Port("a", "--a-port", number), Port("b", "--b-port", number)])
    assert sentence == f"--a-port and --b-port both say {number}: choose two different ports."


def test_a_connection_that_lingers_after_its_server_does_not_block_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", number))
        accepted, _ = server.accept()
        accepted.close()  # the server's side goes to TIME_WAIT
        client.close()
    assert is_free(number)


def test_of_a_supervised_child_the_supervisor_is_named(free_port: Callable[[], int]) -> None:
    number = free_port()
    script = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[2])));"
    command = [sys.executable, "-c", f"{script} print(1, flush=True); input()", "--supervised"]
    with subprocess.Popen(
        [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        [sentence] = taken_ports([Port("Kafka", "--kafka-port", number)])
        child.kill()
    assert f"is taken by process {child.pid}" in sentence
    assert f"under the `hermes up` of process {os.getpid()}. Stop that" in sentence
