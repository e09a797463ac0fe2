import os
from pathlib import Path

from broker.up.logfile import TAIL_LINES, LogFile


def test_a_child_goes_on_at_the_start_of_the_file_after_a_rotation(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs", "broker")
    descriptor = log.open_for_child()
    try:
        os.write(descriptor, b"old\n" * 100)
        assert log.rotate_if_large(bytes_max=100)
        os.write(descriptor, b"new\n")
    finally:
        os.close(descriptor)
    assert log.path.read_bytes() == b"new\n"
    assert (tmp_path / "logs" / "broker.log.1").read_bytes() == b"old\n" * 100


def test_a_small_or_missing_file_is_left_alone(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "broker")
    assert not log.rotate_if_large()
    log.path.write_text("short\n")
    assert not log.rotate_if_large()


def test_the_tail_holds_the_last_lines_of_this_start_only(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "broker")
    assert log.tail() == []
    log.path.write_text("of the start before\n")
    start = log.size()
    with log.path.open("a") as file:
        file.writelines(f"line {number}\n" for number in range(1000))
    assert log.tail(start) == [f"line {number}" for number in range(1000 - TAIL_LINES, 1000)]
    assert "of the start before" not in log.tail(start)
