"""The owner record of the ids topic never goes backwards, however often a write of it is refused;
and a log in which it did is taken over all the same.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.gateway.gateway_process import GatewayProcess, wait_until
from tests.gateway.records import create_topic, read_all
from tests.support.broker_process import BrokerProcess

WINDOW_MS = 12_000
REFRESH_S = 3
"""How soon after a start, and after the last time, the owner record is written again."""


def set_low_mark(bootstrap: str, size: int) -> None:
    """Below so many free bytes produce is refused."""
    name = "hermes.log.dir.min.free.bytes"
    entry = ConfigEntry(name, str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.incremental_alter_configs([resource])[resource].result(30)


def owners(bootstrap: str, topic: str) -> list[tuple[str, int]]:
    """Producer id and epoch of each owner record, in the topic's order."""
    rows = [
        json.loads(record.value or b"")
        for record in read_all(bootstrap, topic)
        if record.key == b"owner"
    ]
    return [(row["producerId"], row["producerEpoch"]) for row in rows]


def test_a_low_disk_costs_one_epoch_and_the_next_start_takes_over(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"offsets.topic.num.partitions": 1}) as broker:
        create_topic(broker.bootstrap, "orders")
        with GatewayProcess(
            tmp_path / "gateway", broker.bootstrap, dedup_window_ms=WINDOW_MS
        ) as gateway:
            ids = str(gateway.settings["dedup_topic"])
            first = gateway.put("orders", messageId="m").json
            set_low_mark(broker.bootstrap, 1 << 60)
            wait_until(lambda: gateway.put("orders").status == 507, what="a low disk")
            time.sleep(REFRESH_S + 2)
            asked = time.monotonic()
            refused = gateway.put("orders", messageId="n")
            assert (refused.status, refused.json["code"]) == (507, "DISK_FULL")
            assert time.monotonic() - asked < 10, "it waited behind an owner record"
            set_low_mark(broker.bootstrap, 0)
            wait_until(lambda: gateway.put("orders", messageId="n").status == 200, what="room")
            assert gateway.end(signal.SIGTERM) == 0
            told = owners(broker.bootstrap, ids)
            assert told == sorted(told)
            assert told[-1][1] <= told[0][1] + 2, "refused writes used up epochs"
            gateway.start()
            assert gateway.put("orders", messageId="m").json == {**first, "duplicate": True}
            assert owners(broker.bootstrap, ids)[-1][1] == told[-1][1] + 1


def test_an_owner_record_behind_a_newer_one_does_not_stop_a_start(
    bootstrap: str, tmp_path: Path, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    with GatewayProcess(tmp_path, bootstrap) as gateway:
        ids = str(gateway.settings["dedup_topic"])
        first = gateway.put(topic, messageId="m").json
        for _ in range(3):
            gateway.kill()
            gateway.start()
        assert gateway.end(signal.SIGTERM) == 0
        record = next(each for each in read_all(bootstrap, ids) if each.key == b"owner")
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
        producer.produce(ids, record.value, b"owner")
        assert producer.flush(30) == 0
        epoch = max(owners(bootstrap, ids))[1]
        gateway.start()
        assert gateway.put(topic, messageId="m").json == {**first, "duplicate": True}
        assert owners(bootstrap, ids)[-1][1] == epoch + 1
