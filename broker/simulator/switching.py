"""A simulated operator who changes a topic's durability again and again, in both of its words.

Nothing else about the topic may change by that: every rule but the one about power cuts holds, and
whoever waits is answered.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.config.alter import AlterOperation
from broker.errors import ErrorCode
from broker.model import INT64_MAX
from broker.simulator.bookkeeping import check_refusal
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

PAUSE_S_MAX: Final = 2.0
TOPIC_RESOURCE: Final = 2
WAYS: Final = (
    ("durability", "fsync"),
    ("durability", "replicated"),
    ("flush.messages", "1"),
    ("flush.messages", str(INT64_MAX)),
)


class Switcher:
    """See the module."""

    def __init__(self, world: World, node: Node, topic: str) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self._topic = topic
        self._session = Session(node)

    async def run(self) -> None:
        while not self.world.is_healing:
            await self._switch(*self.node.random.choice(WAYS))
            await asyncio.sleep(self.node.random.random() * PAUSE_S_MAX)
        self.is_done = True
        self._session.close()

    async def _switch(self, name: str, value: str) -> None:
        change = AlterableConfig(name=name, config_operation=AlterOperation.SET, value=value)
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=self._topic, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        try:
            response = await self._session.ask_any_version(request)
        except ClientError:
            await self._session.back_off()
            return
        code = ErrorCode(response.responses[0].error_code)
        if code is ErrorCode.NONE:
            self.world.counters["durabilities changed"] += 1
        else:
            check_refusal(self.world, f"durability of {self._topic}", code)
            await self._session.back_off()
