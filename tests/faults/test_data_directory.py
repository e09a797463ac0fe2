"""What an operator may do to the data directory: under a running broker it says so, and stops; of a
stopped one what docs/operating.md says may go, and all that is in it is named there.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from broker.wire import api
from broker.wire.messages.delete_topics import DeleteTopicsRequest
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.wire_client import WireClient

MAY_GO = ("lock", "synced-ends", "scrub-state.json")
INDEXES = (".idx", ".timeidx")


def test_a_data_directory_removed_under_a_broker_does_not_crash_its_stop(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", 2)
            assert client.produce("orders", [(b"k", b"v")]).error_code == 0
        shutil.rmtree(broker.data)
        assert broker.terminate() == 0
        log = broker.log_path.read_text()
    assert "Traceback" not in log
    assert "is missing" in log


def test_a_link_in_the_data_directory_is_removed_and_what_it_points_to_is_not(
    tmp_path: Path,
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("precious")
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders")
        broker.kill()
        (broker.data / "topics" / "strange").symlink_to(elsewhere)
        broker.start()
        with WireClient(broker.kafka_port) as client:
            request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=10_000)
            assert client.call(api.DELETE_TOPICS, 5, request).responses[0].error_code == 0
        deadline = time.monotonic() + 10
        while any((broker.data / "trash").iterdir()):
            assert time.monotonic() < deadline, "the trash is never emptied"
            time.sleep(0.05)
    assert (elsewhere / "file").read_text() == "precious"


def test_every_file_of_the_directory_is_described_and_what_may_go_may_go(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    told = page.partition("## The data directory")[2].partition("## Settings")[0]
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", segment_bytes="20000")
            for count in range(5):
                assert client.produce("orders", [(b"k", bytes(9_000))]).base_offset == count
        assert (broker.data / "lock").read_text() == f"{broker.pid}\n", "whom to kill"
        wait_for(broker.data / "synced-ends")
        assert broker.terminate() == 0
        (broker.data / "scrub-state.json").write_text("{}")  # a round begins too late for a test
        files = [path for path in broker.data.rglob("*") if path.is_file()]
        for path in files:
            assert f"`{path.name}`" in told or f"`…{path.suffix}`" in told, path
            if path.name in MAY_GO or path.suffix in INDEXES:
                path.unlink()
        shutil.rmtree(broker.data / "trash", ignore_errors=True)
        broker.start()
        with WireClient(broker.kafka_port) as client:
            for offset in range(5):
                assert len(client.fetch("orders", offset).records) > 9_000
            assert client.produce("orders", [(b"k", b"v")]).base_offset == 5


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} is never written"
        time.sleep(0.05)
