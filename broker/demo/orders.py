"""The life of an order as events, and how many are born when. Pure: chance and time come in.

| event             | follows                            | after        |
|-------------------|------------------------------------|--------------|
| OrderCreated      |                                    |              |
| InventoryReserved | OrderCreated                       | 0.3 to 2 s   |
| PaymentSucceeded  | InventoryReserved                  | 0.5 to 4 s   |
| OrderDelivered    | PaymentSucceeded                   | 5 to 40 s    |
| OrderCancelled    | OrderCreated or InventoryReserved  | 1 to 6 s     |
| OrderRefunded     | OrderDelivered                     | 5 to 30 s    |

Events of one order are always sent in this order: each is planned when the one before was sent.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple


class EventType(StrEnum):
    ORDER_CREATED = "OrderCreated"
    INVENTORY_RESERVED = "InventoryReserved"
    PAYMENT_SUCCEEDED = "PaymentSucceeded"
    ORDER_DELIVERED = "OrderDelivered"
    ORDER_CANCELLED = "OrderCancelled"
    ORDER_REFUNDED = "OrderRefunded"


class Step(NamedTuple):
    """One way on from an event: what follows, how likely, and after how many seconds."""

    event: EventType
    probability: float
    after_s_min: float
    after_s_max: float


NEXT_STEPS: Final[dict[EventType, tuple[Step, ...]]] = {
    EventType.ORDER_CREATED: (
        Step(EventType.ORDER_CANCELLED, 0.03, 1, 6),
        Step(EventType.INVENTORY_RESERVED, 0.97, 0.3, 2),
    ),
    EventType.INVENTORY_RESERVED: (
        Step(EventType.ORDER_CANCELLED, 0.05, 1, 6),
        Step(EventType.PAYMENT_SUCCEEDED, 0.95, 0.5, 4),
    ),
    EventType.PAYMENT_SUCCEEDED: (Step(EventType.ORDER_DELIVERED, 1.0, 5, 40),),
    EventType.ORDER_DELIVERED: (Step(EventType.ORDER_REFUNDED, 0.04, 5, 30),),
    EventType.ORDER_CANCELLED: (),
    EventType.ORDER_REFUNDED: (),
}
EVENTS_PER_ORDER: Final = 3.8
"""The mean that NEXT_STEPS gives, to one digit."""
ORDERS_OPEN_MAX: Final = 100_000


class OrderEvent(NamedTuple):
    """`amount_cents` and `items` are the order's and the same in all its events."""

    order_id: str
    event: EventType
    customer_id: str
    amount_cents: int
    items: int


class Orders:
    """Every order under way: `create` begins one, `take_due` gives the events that are due."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._due: list[tuple[float, int, OrderEvent]] = []
        self._count = 0

    def create(self, now_s: float) -> None:
        """A new order; its OrderCreated is due at once. Dropped when too many are under way."""
        if len(self._due) >= ORDERS_OPEN_MAX:
            return
        chance = self._chance
        first = OrderEvent(
            order_id=f"{chance.getrandbits(48):012x}",
            event=EventType.ORDER_CREATED,
            customer_id=f"customer-{chance.randrange(5_000)}",
            amount_cents=int(chance.lognormvariate(8.5, 0.8)),
            items=1 + min(int(chance.expovariate(0.8)), 12),
        )
        self._plan(now_s, first)

    def take_due(self, now_s: float) -> Iterator[OrderEvent]:
        """The events due by `now_s`, earliest first; taking one plans what follows it."""
        while self._due and self._due[0][0] <= now_s:
            due_s, _, event = heapq.heappop(self._due)
            yield event
            self._plan_next(max(due_s, now_s - 1), event)

    def _plan_next(self, now_s: float, event: OrderEvent) -> None:
        draw = self._chance.random()
        for step in NEXT_STEPS[event.event]:
            draw -= step.probability
            if draw < 0:
                delay_s = self._chance.uniform(step.after_s_min, step.after_s_max)
                self._plan(now_s + delay_s, event._replace(event=step.event))
                return

    def _plan(self, due_s: float, event: OrderEvent) -> None:
        self._count += 1  # breaks ties, so that events are never compared
        heapq.heappush(self._due, (due_s, self._count, event))


class Load(NamedTuple):
    """Events a second: `steady` most of the time, `spike` for `spike_s` seconds of each `period_s`.

    The first spike begins `first_spike_s` seconds after the start.
    """

    steady: float
    spike: float
    spike_s: float = 60
    period_s: float = 300
    first_spike_s: float = 20

    def is_spike(self, elapsed_s: float) -> bool:
        since_s = elapsed_s - self.first_spike_s
        return since_s >= 0 and since_s % self.period_s < self.spike_s

    def orders_per_second(self, elapsed_s: float) -> float:
        """How many orders are born, so that their events add up to the rate asked for."""
        rate = self.spike if self.is_spike(elapsed_s) else self.steady
        return rate / EVENTS_PER_ORDER
