"""Batches for topics that open them: big ones, which the worker process looks at, and poisoned
ones, of which nothing may ever be read.

Big is cheap on the wire: a record of spaces, compressed, unpacks to more than the event loop opens.
"""

from __future__ import annotations

from typing import Final

from broker.records.build import NewRecord, build_batch
from broker.records.intake import UNPACKED_BYTES_NOW_MAX
from broker.simulator.world import World

FULL_TOPIC_PROBABILITY: Final = 0.5
BIG_BATCH_PROBABILITY: Final = 0.05
POISON_PROBABILITY: Final = 0.1
BIG_PADDING_BYTES: Final = UNPACKED_BYTES_NOW_MAX + 1_000
BIG_COMPRESSION: Final = "lz4"
HEADERS_TOO_MANY: Final = 101
"""One more than `max.record.headers` allows."""


def opening_configs(world: World, topic: str) -> dict[str, str]:
    """The settings with which `topic` opens what it is sent, or none. Drawn once for each topic."""
    random = world.random_for(f"opening {topic}")
    configs = {}
    if random.random() < FULL_TOPIC_PROBABILITY:
        world.full_topics.add(topic)
        configs["record.validation"] = "full"
    if random.random() < FULL_TOPIC_PROBABILITY:
        configs["compression.type"] = random.choice(("lz4", "snappy", "gzip"))
    return configs


def poisoned_batch(value: bytes, timestamp_ms: int, *, is_big: bool) -> bytes:
    """Of two records the second has too many headers; nobody announced `value`."""
    headers = [("h", None)] * HEADERS_TOO_MANY
    padding = b" " * BIG_PADDING_BYTES if is_big else b""
    records = [NewRecord(b"poison", value + padding), NewRecord(b"poison", value, headers)]
    return bytes(build_batch(records, timestamp_ms=timestamp_ms, compression=BIG_COMPRESSION))
