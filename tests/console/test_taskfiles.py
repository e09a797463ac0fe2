"""Tasks as files: whole or not there, in order, once; a broken file stops nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from uuid import uuid4

import pytest
from kombu import Connection

from hermes_console import taskfiles

COUNT = 300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queue").mkdir()
    return tmp_path


@pytest.fixture
def name() -> str:
    """Kombu remembers bindings by name for the whole process."""
    return f"tasks{uuid4().hex}"


@pytest.fixture
def connect(folder: Path) -> Iterator[object]:
    taskfiles.register()
    opened: list[Connection] = []

    def make() -> Connection:
        options = {
            "data_folder_in": str(folder / "queue"),
            "data_folder_out": str(folder / "queue"),
            "control_folder": str(folder / "control"),
        }
        connection = Connection(f"{taskfiles.SCHEME}://localhost", transport_options=options)
        opened.append(connection)
        return connection

    yield make
    for connection in opened:
        connection.release()


def test_reader_beside_a_writer_gets_every_message_once_and_in_order(
    connect: object, name: str
) -> None:
    def write() -> None:
        queue = connect().SimpleQueue(name)  # type: ignore[operator]
        for number in range(COUNT):
            queue.put({"number": number})

    writer = threading.Thread(target=write)
    writer.start()
    queue, found = connect().SimpleQueue(name), []  # type: ignore[operator]
    while len(found) < COUNT:
        message = queue.get(timeout=20)
        found.append(message.payload["number"])
        message.ack()
    writer.join()
    assert found == list(range(COUNT))
    with pytest.raises(Empty):
        queue.get_nowait()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_broken_file_is_left_out_and_the_next_message_comes(
    connect: object, folder: Path, name: str, content: bytes
) -> None:
    queue = connect().SimpleQueue(name)  # type: ignore[operator]
    (folder / "queue" / f"{0:020d}_x.{name}.msg").write_bytes(content)
    queue.put({"number": 1})
    assert queue.get(timeout=20).payload == {"number": 1}


def test_unfinished_file_is_not_seen(connect: object, folder: Path, name: str) -> None:
    queue = connect().SimpleQueue(name)  # type: ignore[operator]
    queue.put({"number": 1})
    (whole,) = (folder / "queue").glob("*.msg")
    whole.rename(whole.with_name(f"{whole.name}.draft"))
    with pytest.raises(Empty):
        queue.get_nowait()


def test_what_a_process_left_that_died_is_there_again_or_gone(folder: Path) -> None:
    queue = folder / "queue"
    for name in ("1_a.tasks.msg.taken", "2_b.tasks.msg.0f.draft", "3_c.tasks.msg"):
        (queue / name).write_text("{}")
    now_s = time.time()
    taskfiles.tidy(queue, now_s)
    assert len(list(queue.iterdir())) == 3, "their process may be at work with them"
    taskfiles.tidy(queue, now_s + taskfiles.LEFT_AFTER_S + 60)
    assert sorted(file.name for file in queue.iterdir()) == ["1_a.tasks.msg", "3_c.tasks.msg"]


def test_message_of_a_worker_that_died_is_delivered_after_a_while(
    folder: Path, connect: Callable[[], Connection], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect().SimpleQueue(name) as queue:
        queue.put({"number": 1})
    (file,) = (folder / "queue").iterdir()
    file.rename(file.with_name(f"{file.name}{taskfiles.TAKEN}"))
    monkeypatch.setattr(taskfiles, "LEFT_AFTER_S", -1.0)
    with connect().SimpleQueue(name) as queue:
        message = queue.get(timeout=10)
        assert message.payload == {"number": 1}
        message.ack()


def test_whoever_finds_a_binding_noted_finds_it_written(connect: object, name: str) -> None:
    """Several threads that send for the first time: no message goes to nobody."""
    start = threading.Barrier(4)

    def write(number: int) -> None:
        connection = connect()  # type: ignore[operator]
        start.wait(20)
        connection.SimpleQueue(name).put({"number": number})

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    queue = connect().SimpleQueue(name)  # type: ignore[operator]
    assert sorted(queue.get(timeout=20).payload["number"] for _ in range(4)) == [0, 1, 2, 3]
