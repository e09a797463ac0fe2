"""Changes to settings of topics and brokers as requests ask for them: each resource as a whole or
not at all, stored before it is in force.

Not here: the messages, and which values are valid (`config.alter`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.config.alter import AlterOperation, ConfigChange
from broker.errors import ErrorCode, Refusal
from broker.server.handlers.describe_configs import (
    ResourceType,
    broker_of_resource,
    unknown_topic,
)
from broker.server.outcome import Outcome, count_errors, outcome_of

if TYPE_CHECKING:
    from broker.server.node import Broker


class ResourceChange(NamedTuple):
    """What is wanted of one resource; the type is the protocol's number."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]


async def change_resources(
    broker: Broker,
    api: str,
    wanted: Sequence[ResourceChange],
    *,
    is_validation_only: bool,
    is_replacement: bool,
) -> list[Outcome]:
    """How each change ended. With `is_replacement` settings that are not named go back to their
    defaults.

    A resource that stands twice in the request is refused, each time, with INVALID_REQUEST.
    """
    counts = Counter((item.resource_type, item.resource_name) for item in wanted)
    outcomes = []
    for item in wanted:
        is_twice = counts[item.resource_type, item.resource_name] > 1
        change = _change(
            broker,
            item,
            is_twice=is_twice,
            is_validation_only=is_validation_only,
            is_replacement=is_replacement,
        )
        outcomes.append(await outcome_of(change))
    count_errors(broker, api, [outcome.code for outcome in outcomes])
    return outcomes


async def _change(
    broker: Broker,
    wanted: ResourceChange,
    *,
    is_twice: bool,
    is_validation_only: bool,
    is_replacement: bool,
) -> None:
    if is_twice:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the resource stands twice in the request")
    _check_form(wanted.changes)
    name = wanted.resource_name
    if wanted.resource_type == ResourceType.TOPIC:
        topic = broker.catalog.topic(name)
        if topic is None:
            raise unknown_topic(name)
        if topic.is_internal:
            text = f"{topic.name} is an internal topic: its settings follow from the broker's"
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        await broker.catalog.alter_topic_config(
            name,
            wanted.changes,
            is_validation_only=is_validation_only,
            is_replacement=is_replacement,
        )
        return
    broker_id = broker_of_resource(broker, wanted.resource_type, name)
    await broker.catalog.alter_broker_config(
        broker_id,
        wanted.changes,
        is_validation_only=is_validation_only,
        is_replacement=is_replacement,
    )


def _check_form(changes: Sequence[ConfigChange]) -> None:
    """What no value could mend. Raises Refusal, as Kafka does."""
    for name, count in Counter(change.name for change in changes).items():
        if count > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} stands twice for one resource")
    for change in changes:
        if change.value is None and change.operation != AlterOperation.DELETE:
            text = f"{change.name} has no value: name one, or delete the setting"
            raise Refusal(ErrorCode.INVALID_REQUEST, text)
