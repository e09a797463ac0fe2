"""Dynamic settings of the brokers.

This node's and those of all nodes, kept in the metastore over the static ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from broker.config.alter import ConfigChange, decide_alter
from broker.config.broker import BrokerSettings
from broker.config.effective import BrokerConfig, effective_broker_config
from broker.config.setting import settings_of
from broker.errors import ErrorCode, Refusal
from broker.metastore import keys
from broker.metastore.keys import ConfigValue
from broker.ports import Condition, Metastore, MetastoreFault, Put

BROKER_ROWS: Final = settings_of(BrokerSettings)


class BrokerConfigs:
    """The layers behind a broker's settings. The catalog calls it, one change at a time."""

    def __init__(self, metastore: Metastore, static: BrokerSettings, node_id: int) -> None:
        self._metastore = metastore
        self._node_id = node_id
        self._versions: dict[str, int] = {}
        self.config = BrokerConfig(static, {}, {})

    def snapshot(self) -> BrokerSettings:
        """The effective settings.

        Raises ConfigError when a stored value is not valid (any more).
        """
        return self.config.snapshot()

    async def load(self) -> None:
        """Read the dynamic layers. Raises MetastoreFault, UnreadableValue."""
        cluster = await self._read(keys.broker_config(None))
        node = await self._read(keys.broker_config(self._node_id))
        self.config = BrokerConfig(self.config.static, cluster.overrides, node.overrides)

    def decide(
        self,
        broker_id: int | None,
        changes: Sequence[ConfigChange],
        *,
        is_replacement: bool = False,
    ) -> BrokerConfig:
        """The layers after `changes` to this broker's, or with None to every broker's settings;
        `is_replacement` begins with none.

        Raises ConfigError with every problem; Refusal for a setting that needs a restart, or
        another broker's id.
        """
        if broker_id not in (None, self._node_id):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no broker {broker_id}")
        for name in (change.name for change in changes):
            if name in BROKER_ROWS and not BROKER_ROWS[name].is_live:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"{name} is read-only: set it in the file, environment or flags and restart",
                )
        in_force = {
            name: effective_broker_config(row, self.config).value or ""
            for name, row in BROKER_ROWS.items()
        }
        if broker_id is None:
            present = {} if is_replacement else self.config.cluster_overrides
            overrides = decide_alter(BROKER_ROWS, present, in_force, changes)
            config = replace(self.config, cluster_overrides=overrides)
        else:
            present = {} if is_replacement else self.config.node_overrides
            overrides = decide_alter(BROKER_ROWS, present, in_force, changes)
            config = replace(self.config, node_overrides=overrides)
        config.snapshot()
        return config

    async def write(self, broker_id: int | None, config: BrokerConfig) -> None:
        """Store what `decide` returned and make it the present one. Raises MetastoreFault."""
        overrides = config.cluster_overrides if broker_id is None else config.node_overrides
        key = keys.broker_config(broker_id)
        version = await self._metastore.transact(
            [Condition(key, self._versions[key])], [Put(key, ConfigValue(overrides).encode())]
        )
        if version is None:
            raise MetastoreFault("another process changed these settings: repeat the request")
        self._versions[key] = version
        self.config = config

    async def _read(self, key: str) -> ConfigValue:
        entry = await self._metastore.read(key)
        self._versions[key] = 0 if entry is None else entry.version
        return ConfigValue() if entry is None else ConfigValue.decode(entry.value)
