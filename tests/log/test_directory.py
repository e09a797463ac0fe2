"""The data directory: whose it is, and where things lie."""

from __future__ import annotations

import asyncio
import re

import pytest

from broker.log.directory import (
    DataDirectoryRefused,
    Meta,
    claim,
    empty_trash,
    move_to_trash,
    partition_directory,
    read_meta,
)
from broker.log.partition_log import PartitionLog
from broker.model import format_uuid
from broker.runtime.freeing import PAUSE_S, WHOLE_BYTES_MAX
from tests.log.world import NOW_MS, SMALL, TOPIC_ID, FaultyDisk, append

CLUSTER = "AAECAwQFBgcICQoLDA0ODw"


async def test_an_empty_directory_becomes_ours_and_stays(disk: FaultyDisk) -> None:
    assert read_meta(disk) is None
    assert await claim(disk, node_id=3, cluster_id=CLUSTER) == Meta(CLUSTER, 3)
    assert await claim(disk, node_id=3, cluster_id=CLUSTER) == Meta(CLUSTER, 3)


async def test_a_lock_or_metastore_that_is_there_first_does_not_matter(disk: FaultyDisk) -> None:
    await disk.replace_file("lock", b"1")
    await disk.replace_file("metastore.sqlite", b"")
    assert await claim(disk, node_id=0, cluster_id=CLUSTER) == Meta(CLUSTER, 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "damaged: restore it"),
        (b"\x00" * 40, "damaged: restore it"),
        (b"version=x\n", "damaged: restore it"),
        (b"version=1\ncluster.id=\nnode.id=1\n", "damaged"),
        (b"version=1\ncluster.id=abc\n", "damaged"),
        (b"version=2\ncluster.id=abc\nnode.id=0\n", "run the newer HermesMQ"),
        (
            f"version=1\ncluster.id={CLUSTER}\nnode.id=9\n".encode(),
            "belongs to node 9, this is node 0",
        ),
    ],
)
async def test_a_bad_or_foreign_meta_file_is_one_clear_sentence(
    disk: FaultyDisk, content: bytes, words: str
) -> None:
    await disk.replace_file("meta.properties", content)
    with pytest.raises(DataDirectoryRefused, match=re.escape(words)) as refused:
        await claim(disk, node_id=0, cluster_id=CLUSTER)
    assert "\n" not in str(refused.value)


async def test_another_cluster_is_refused(disk: FaultyDisk) -> None:
    await claim(disk, node_id=0, cluster_id=CLUSTER)
    with pytest.raises(DataDirectoryRefused, match="belongs to cluster"):
        await claim(disk, node_id=0, cluster_id="B" * 22)


async def test_a_directory_of_somebody_else_is_not_touched(disk: FaultyDisk) -> None:
    await disk.replace_file("holiday.jpg", b"sea")
    with pytest.raises(DataDirectoryRefused, match=r"holds 'holiday\.jpg'"):
        await claim(disk, node_id=0, cluster_id=CLUSTER)
    assert disk.list_directory("") == ["holiday.jpg"]


async def test_an_unreadable_meta_file_is_one_clear_sentence(disk: FaultyDisk) -> None:
    await disk.make_directory("meta.properties")
    with pytest.raises(DataDirectoryRefused, match="meta"):
        await claim(disk, node_id=0, cluster_id=CLUSTER)


async def make(
    disk: FaultyDisk, topic: str, partition: int, topic_id: bytes = TOPIC_ID
) -> PartitionLog:
    return await PartitionLog.create(
        disk,
        partition_directory(topic, partition),
        topic_id=topic_id,
        partition=partition,
        topic=topic,
        config=SMALL,
        now_wall_ms=NOW_MS,
    )


async def test_a_recreated_topic_never_meets_old_data(disk: FaultyDisk) -> None:
    log = await make(disk, "orders", 0)
    append(log, "old")
    await log.close()
    for _ in range(2):
        path = await move_to_trash(disk, "orders", TOPIC_ID)
        log = await make(disk, "orders", 0, bytes(reversed(TOPIC_ID)))
        assert log.log_end_offset == 0
        await log.close()
    assert path == f"trash/{format_uuid(TOPIC_ID)}.1"
    assert await move_to_trash(disk, "nothing", TOPIC_ID) is None
    await empty_trash(disk)
    assert disk.list_directory("trash") == []


async def test_what_is_deleted_while_the_trash_is_emptied_goes_as_well(disk: FaultyDisk) -> None:
    """Nobody begins another emptying meanwhile, and a large topic takes its time."""
    for topic in ("large", "later"):
        await disk.make_directory(f"topics/{topic}/partition-00")
    (disk.root / "topics/large/partition-00/0.log").write_bytes(bytes(2 * WHOLE_BYTES_MAX))
    await move_to_trash(disk, "large", TOPIC_ID)
    emptying = asyncio.create_task(empty_trash(disk))
    await asyncio.sleep(PAUSE_S)
    await move_to_trash(disk, "later", bytes(16))
    assert not emptying.done(), "the large one is not gone yet"
    await emptying
    assert disk.list_directory("trash") == []
