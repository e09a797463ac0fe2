"""What a partition makes of a disk that refuses in the middle of a turn, in a simulated broker."""

from __future__ import annotations

import pytest

from broker.errors import ErrorCode, Refusal
from broker.log.names import SYNC_FAILED
from broker.server.partition import Partition
from broker.simulator.faults import Kept, PowerCut
from tests.server.group_world import TOPIC, Cluster, simulate

RECORDS = [(b"k", b"v" * 50)]


def partition_of(cluster: Cluster) -> Partition:
    found = cluster.broker.partitions.get(TOPIC, 0)
    assert found is not None
    return found


@pytest.mark.parametrize("durability", ["fsync", "replicated"])
def test_what_a_roll_wrote_before_the_disk_was_full_counts_and_the_partition_stays(
    durability: str,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        partition = partition_of(cluster)
        faults = cluster.host.image.faults
        answers: dict[int, ErrorCode] = {}

        def append() -> int:
            offset = partition.log.log_end_offset
            partition.append_records(RECORDS, lambda code: answers.__setitem__(offset, code))
            return offset

        written = append()
        partition.log.flush_early()  # as a roll does that takes over in the middle of the turn
        faults.is_full = True
        refused = append()
        partition.flush()
        faults.is_full = False
        assert answers[refused] == ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.until(lambda: written in answers)
        assert answers[written] == ErrorCode.NONE
        assert append() == written + 1
        await cluster.until(lambda: len(answers) == 2 and answers[refused] == ErrorCode.NONE)
        assert partition.offline_reason is None
        assert partition.high_watermark == written + 2

    simulate(scenario, {"hermes.durability": durability})


def test_a_log_start_that_cannot_be_stored_is_refused_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        partition = partition_of(cluster)
        answers: list[ErrorCode] = []
        partition.append_records(RECORDS, answers.append)
        await cluster.until(lambda: answers == [ErrorCode.NONE])
        with monkeypatch.context() as others_come_first:
            others_come_first.setattr("broker.log.retention.CHECKPOINT_ATTEMPTS_MAX", 0)
            with pytest.raises(Refusal, match="could not be stored: try again"):
                await partition.delete_records(1)
        assert partition.offline_reason is None
        assert await partition.delete_records(1) == 1

    simulate(scenario)


def test_a_failed_sync_is_marked_for_the_next_start_once_there_is_room_for_the_mark() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()
        partition = partition_of(cluster)
        mark = f"{partition.log.directory}/{SYNC_FAILED}"
        faults, image = cluster.host.image.faults, cluster.host.image
        faults.has_room_for_marks = False
        answers: list[ErrorCode] = []
        partition.append_records(RECORDS, answers.append)
        partition.flush()
        faults.error_probability = 1.0
        await cluster.until(lambda: answers == [ErrorCode.KAFKA_STORAGE_ERROR])
        faults.error_probability = 0.0
        assert partition.offline_reason is not None
        assert image.find(mark) is None
        faults.has_room_for_marks = True
        await cluster.until(lambda: image.find(mark) is not None)
        await cluster.restart()  # what could not be synced is written once more
        assert image.find(mark) is None
        image.cut_power(PowerCut(0.0, Kept.NOTHING))
        await cluster.restart()
        assert partition_of(cluster).log.log_end_offset == 1

    simulate(scenario, {"hermes.durability": "fsync"})
