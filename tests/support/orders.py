"""Orders as an event stream: real ones where the data set is at hand, else generated ones."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

DATA_SET = Path(__file__).parents[3] / "shared" / "data" / "olist" / "orders.csv"

STEPS = (
    ("order_purchase_timestamp", "OrderCreated"),
    ("order_approved_at", "PaymentSucceeded"),
    ("order_delivered_carrier_date", "OrderShipped"),
    ("order_delivered_customer_date", "OrderDelivered"),
)
ENDED_EARLY = frozenset({"canceled", "unavailable"})


@dataclass(frozen=True)
class OrderEvent:
    """`step` counts from 0 within the order: the order to keep."""

    order_id: str
    step: int
    name: str

    @property
    def value(self) -> str:
        return f"{self.step}:{self.name}"


def order_events(orders_max: int | None = None) -> tuple[list[OrderEvent], str]:
    """All events by time, each order's steps in order, and a sentence on where they come from."""
    if DATA_SET.exists():
        with DATA_SET.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))[:orders_max]
        origin = f"{len(rows)} real orders of the Olist data set"
    else:
        rows = list(generated_orders(orders_max or 3000))
        origin = (
            f"{len(rows)} generated orders: the Olist data set is not beside the project,"
            " so no real order was tested"
        )
    timed = [event for row in rows for event in events_of(row)]
    timed.sort(key=lambda item: item[0])
    return [event for _, event in timed], origin


def events_of(row: dict[str, str]) -> Iterator[tuple[datetime, OrderEvent]]:
    """Some rows contradict themselves in time: a step is never earlier than the one before it."""
    names = [(row[column], name) for column, name in STEPS if row[column]]
    if row["order_status"] in ENDED_EARLY:
        names.append((names[-1][0], "OrderCancelled"))
    earliest = datetime.min.replace(tzinfo=UTC)
    for step, (text, name) in enumerate(names):
        earliest = max(earliest, datetime.fromisoformat(text).replace(tzinfo=UTC))
        yield earliest, OrderEvent(row["order_id"], step, name)


def generated_orders(count: int) -> Iterator[dict[str, str]]:
    chance = random.Random(20181017)
    start = datetime(2018, 1, 1, tzinfo=UTC)
    for number in range(count):
        at = start + timedelta(seconds=chance.randrange(180 * 86400))
        steps_done = chance.choice((1, 2, 3, 4, 4, 4, 4, 4))
        row = {"order_id": f"{number:032x}", "order_status": "delivered"}
        for step, (column, _) in enumerate(STEPS):
            at += timedelta(seconds=chance.randrange(-600, 5 * 86400))
            row[column] = at.replace(tzinfo=None).isoformat(sep=" ") if step < steps_done else ""
        if steps_done < 2 and chance.random() < 0.5:
            row["order_status"] = "canceled"
        yield row
