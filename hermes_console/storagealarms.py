"""What is wrong with a broker's disk and logs, as its metrics tell: the rows of a banner.

A further flag of partitions (a gauge of the broker with the labels topic and partition, above 0
where it holds) is one row of `PARTITION_FLAGS`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hermes_console.samples.snapshot import ClusterSnapshot, FlaggedPartition
from hermes_console.words import number, size

PARTITIONS_NAMED_MAX: Final = 10


class PartitionFlag(NamedTuple):
    """`words` follow "is" or "are"; `advice` says what to do. The gauge is 0 or absent where all
    is well.
    """

    key: str
    metric: str
    words: str
    advice: str


PARTITION_FLAGS: Final = (
    PartitionFlag(
        "offline",
        "hermes_partition_offline",
        "offline after a fault of the disk",
        "Nothing is read or written there, and nothing that was acknowledged is retried in "
        "silence. The broker's log names the fault: repair or replace the disk, then restart the "
        "broker.",
    ),
    PartitionFlag(
        "damaged",
        "hermes_damaged_offsets",
        "damaged on disk in places",
        "What is damaged is never served: a fetch of it gets CORRUPT_MESSAGE, records around it "
        "are read. The broker's log names the places: look after the disk, and move consumers "
        "past them.",
    ),
)
FLAGS_BY_METRIC: Final = {flag.metric: flag for flag in PARTITION_FLAGS}


@dataclass(frozen=True, slots=True)
class StorageAlarm:
    """One notice. `partitions` are named, `more_count` further ones are not."""

    key: str
    title: str
    advice: str
    partitions: tuple[FlaggedPartition, ...] = ()
    more_count: int = 0


def storage_alarms(snapshot: ClusterSnapshot | None, topic: str = "") -> list[StorageAlarm]:
    """What to show on a page, or on the page of one topic; nothing while the broker is not reached:
    then that is the news.
    """
    if snapshot is None or snapshot.trouble:
        return []
    storage = snapshot.storage
    broker = "The broker" if storage.node_id is None else f"Broker {storage.node_id}"
    alarms = []
    if storage.is_low:
        free, mark = size(snapshot.disk.free_bytes), size(storage.low_mark_bytes)
        alarms.append(
            StorageAlarm(
                "low-space",
                f"{broker} takes no records: its disk has {free} free, less than the {mark} "
                "that it keeps.",
                "Shorten retention, delete records or topics that nobody needs, or give the disk "
                "more room: records are taken again by themselves. Reading goes on.",
            )
        )
    if storage.uncleanable_count and not topic:
        alarms.append(_uncleanable(broker, storage.uncleanable_count))
    for flag in PARTITION_FLAGS:
        found = [one for one in storage.flagged if one.flag == flag.key]
        if topic:
            found = [one for one in found if one.topic == topic]
            count = len(found)
        else:
            count = storage.flagged_counts.get(flag.key, 0)
        if found:
            alarms.append(_flagged(flag, broker, found, count))
    return alarms


def _uncleanable(broker: str, count: int) -> StorageAlarm:
    """The metric names no partition; the broker's log does."""
    what = "a partition" if count == 1 else f"{number(count)} partitions"
    return StorageAlarm(
        "uncleanable",
        f"{broker} leaves a part of {what} uncompacted.",
        "That part is damaged, or holds a batch that cannot be opened: it is kept as it is, and "
        "older values of a key may be read there. The broker's log names it. Every compaction "
        "tries again.",
    )


def _flagged(
    flag: PartitionFlag, broker: str, found: Sequence[FlaggedPartition], count: int
) -> StorageAlarm:
    named = tuple(found[:PARTITIONS_NAMED_MAX])
    what = "A partition is" if count == 1 else f"{number(count)} partitions are"
    where = "" if broker == "The broker" else f" on {broker.lower()}"
    return StorageAlarm(
        flag.key, f"{what} {flag.words}{where}:", flag.advice, named, count - len(named)
    )
