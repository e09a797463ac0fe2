"""Producer and group consumer over the death and return of their broker."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from broker.client import admin
from broker.client.admin import NewTopic
from broker.client.cluster import Cluster
from broker.client.consumer import ConsumedRecord, Consumer
from broker.client.fetcher import Fetcher
from broker.client.lane import Delivery
from broker.client.producer import Producer
from broker.model import TopicPartition
from broker.runtime.clock import SystemClock
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from tests.client.conftest import BROKER_SETTINGS, client_settings
from tests.support.broker_process import BrokerProcess

TOPIC = "orders"
KILLS = 2


def open_cluster(broker: BrokerProcess) -> Cluster:
    settings = client_settings(broker.bootstrap, batch_size=500)
    return Cluster(SystemNetwork(), SystemClock(), SystemIds(), settings)


async def test_kills_lose_nothing_repeat_nothing_and_keep_the_order(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, BROKER_SETTINGS) as broker:
        sending, reading = open_cluster(broker), open_cluster(broker)
        await admin.create_topics(sending, [NewTopic(TOPIC, 2, 1)])
        producer = Producer(sending)
        await producer.start()
        consumer = Consumer(reading, "settlement", [TOPIC])
        await consumer.start()
        deliveries: list[Delivery] = []
        consumed: list[ConsumedRecord] = []

        async def send() -> None:
            while True:
                number = len(deliveries)
                delivery = await producer.send(TOPIC, b"%d" % number, partition=number % 2)
                deliveries.append(delivery)
                await asyncio.sleep(0.001)

        async def consume() -> None:
            while True:
                consumed.extend(await consumer.poll(50))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(send()), group.create_task(consume())]
            for _ in range(KILLS):
                await asyncio.sleep(1)
                await asyncio.to_thread(broker.restart)
            await asyncio.sleep(1)
            tasks[0].cancel()
            stored = await asyncio.wait_for(asyncio.gather(*deliveries), 20)
            async with asyncio.timeout(20):
                while len({record.value for record in consumed}) < len(stored):
                    await asyncio.sleep(0.05)
            tasks[1].cancel()
        await producer.close()
        await consumer.close()

        fetcher = Fetcher(reading)
        fetcher.assign({TopicPartition(TOPIC, 0): 0, TopicPartition(TOPIC, 1): 0})
        log: list[ConsumedRecord] = []
        while records := await fetcher.poll(300):
            log += records
        fetcher.close()
        await sending.close()
        await reading.close()

    for partition in range(2):
        sent = [b"%d" % number for number in range(partition, len(stored), 2)]
        in_log = [record for record in log if record.partition == partition]
        assert [record.value for record in in_log] == sent
        assert [record.offset for record in in_log] == [
            row.offset for row in stored if row.partition == partition
        ]
        seen = [record.offset for record in consumed if record.partition == partition]
        assert set(seen) == set(range(len(sent)))
        jumps = [second - first for first, second in itertools.pairwise(seen)]
        assert all(jump <= 1 for jump in jumps), "a record was skipped"
