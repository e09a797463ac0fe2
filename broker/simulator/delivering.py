"""A simulated application on the real client's producer: keyed sends, acknowledged or not."""

from __future__ import annotations

import asyncio
from typing import Final

from broker.client.cluster import Cluster
from broker.client.failure import ClientError
from broker.client.producer import Producer as ClientProducer
from broker.simulator.consuming import client_settings
from broker.simulator.history import INFO, OK
from broker.simulator.world import Node, World

PAUSE_S_MAX: Final = 0.2
BURST_MAX: Final = 5


class Application:
    """A process that sends to some partitions until the world heals."""

    def __init__(self, world: World, node: Node, topic: str, partitions: int) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self._topic = topic
        self._partitions = partitions
        self._next: dict[int, int] = {}
        settings = client_settings(node.name, linger_ms=node.random.choice((0, 5, 50)))
        self._cluster = Cluster(node.network, node.clock, node.ids, settings)

    async def run(self) -> None:
        producer = ClientProducer(self._cluster)
        await producer.start()
        async with asyncio.TaskGroup() as group:
            while not self.world.is_healing:
                for _ in range(self.node.random.randint(1, BURST_MAX)):
                    group.create_task(self._send(producer))
                await asyncio.sleep(self.node.random.random() * PAUSE_S_MAX)
        await producer.close()
        await self._cluster.close()
        self.is_done = True

    async def _send(self, producer: ClientProducer) -> None:
        world, partition = self.world, self.node.random.randrange(self._partitions)
        sequence = self._next.get(partition, 0)
        self._next[partition] = sequence + 1
        name = f"{self.node.name}:{partition}"
        value = f"{name}/{sequence}"
        identity = world.history.invoke(
            world.loop.time(),
            "send",
            producer=name,
            is_idempotent=True,
            topic=self._topic,
            partition=partition,
            value=value,
            sequence=sequence,
        )
        try:
            delivery = await producer.send(self._topic, value.encode(), partition=partition)
            stored = await delivery
        except ClientError:
            world.history.end(world.loop.time(), identity, INFO, "send")
            return
        offset = stored.offset if stored.offset >= 0 else None
        world.history.end(world.loop.time(), identity, OK, "send", offset=offset)
        world.counters["records delivered by the client"] += 1
