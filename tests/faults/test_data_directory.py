"""What an operator may do to the data directory under a running broker: it says so, and stops."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from broker.wire import api
from broker.wire.messages.delete_topics import DeleteTopicsRequest
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient


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
