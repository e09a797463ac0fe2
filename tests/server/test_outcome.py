"""What the log says of changes whose client did not wait."""

from __future__ import annotations

import time
from pathlib import Path

from broker.errors import ErrorCode
from broker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

CREATE_TOPICS = 19


def test_refusals_nobody_waited_for_are_no_errors_of_the_broker(tmp_path: Path) -> None:
    wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    settings = {"hermes.log.level": "DEBUG"}
    with BrokerProcess(tmp_path, settings) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders")
        for _ in range(20):
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=-1)
            answer = client.call(CREATE_TOPICS, 5, request)
            assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        time.sleep(0.2)
        written = broker.log_path.read_text().splitlines()
        lines = [line for line in written if "after its time was up" in line]
        assert len(lines) == 20
        assert all("[debug" in line for line in lines)
