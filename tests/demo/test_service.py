import json
import random
import re
import threading

from broker.demo.groups import GROUPS
from broker.demo.orders import EventType, Load, OrderEvent
from broker.demo.service import ensure_topic, headers, payload

EVENT = OrderEvent("00000000000a", EventType.ORDER_CREATED, "customer-1", 1999, 2)


def test_every_record_has_an_id_of_its_own_and_one_trace_per_order() -> None:
    chance = random.Random(1)
    first = dict(headers(EVENT, chance))
    second = dict(headers(EVENT._replace(event=EventType.INVENTORY_RESERVED), chance))
    assert first["message-id"] != second["message-id"]
    traceparent = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-01")
    one, two = (
        traceparent.fullmatch(first["traceparent"]),
        traceparent.fullmatch(second["traceparent"]),
    )
    assert one
    assert two
    assert one[1] == two[1]
    assert one[2] != two[2]
    assert second["event-type"] == b"InventoryReserved"


def test_the_value_is_json_with_amounts_in_whole_cents() -> None:
    value = json.loads(json.dumps(payload(EVENT, 1_700_000_000_000)))
    assert value["orderId"] == EVENT.order_id
    assert value["amountCents"] == 1999


def test_one_group_is_slow_falls_behind_in_a_spike_and_catches_up_between_two() -> None:
    assert {group.name for group in GROUPS} == {
        *("inventory", "payment", "settlement", "marketing", "notification", "risk-control")
    }
    [slow] = [group for group in GROUPS if group.records_per_s]
    load = Load(steady=40, spike=150)
    assert load.steady < slow.records_per_s < load.spike
    mean = (
        load.spike * load.spike_s + load.steady * (load.period_s - load.spike_s)
    ) / load.period_s
    assert mean < slow.records_per_s


def test_a_broker_that_does_not_answer_is_said_once() -> None:
    stop = threading.Event()
    said: list[str] = []

    def report(line: str) -> None:
        said.append(line)
        threading.Timer(6, stop.set).start()  # time for a second attempt

    ensure_topic({"bootstrap.servers": "127.0.0.1:1", "log_level": 2}, "t", 1, stop, report)
    assert said == ["topic t: no answer from 127.0.0.1:1; trying again"]
