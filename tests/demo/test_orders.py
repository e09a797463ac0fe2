import itertools
import random
from collections import Counter, defaultdict

from broker.demo.orders import EVENTS_PER_ORDER, NEXT_STEPS, EventType, Load, OrderEvent, Orders


def run(orders: int, seed: int = 1, seconds: int = 200) -> list[OrderEvent]:
    world = Orders(random.Random(seed))
    for _ in range(orders):
        world.create(0)
    return [event for now_s in range(seconds) for event in world.take_due(now_s)]


def test_every_order_follows_the_table_of_steps_from_its_creation() -> None:
    lives: dict[str, list[EventType]] = defaultdict(list)
    for event in run(2_000):
        lives[event.order_id].append(event.event)
    assert len(lives) == 2_000
    for life in lives.values():
        assert life[0] is EventType.ORDER_CREATED
        for before, after in itertools.pairwise(life):
            assert after in {step.event for step in NEXT_STEPS[before]}
        assert life[-1] in {
            EventType.ORDER_CANCELLED,
            EventType.ORDER_DELIVERED,
            EventType.ORDER_REFUNDED,
        }


def test_all_six_events_occur_and_the_mean_is_what_the_load_counts_on() -> None:
    events = run(5_000)
    counts = Counter(event.event for event in events)
    assert set(counts) == set(EventType)
    assert counts[EventType.ORDER_CANCELLED] < counts[EventType.ORDER_DELIVERED]
    assert abs(len(events) / 5_000 - EVENTS_PER_ORDER) < 0.15


def test_the_same_seed_gives_the_same_orders() -> None:
    assert run(50, seed=7) == run(50, seed=7)
    assert run(50, seed=7) != run(50, seed=8)


def test_the_rate_rises_for_one_minute_out_of_five() -> None:
    load = Load(steady=40, spike=150)
    spike_seconds = [second for second in range(620) if load.is_spike(second)]
    assert spike_seconds == [*range(20, 80), *range(320, 380)]
    assert load.orders_per_second(30) > 3 * load.orders_per_second(100)
