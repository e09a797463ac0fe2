"""Which rounds of syncs go to the journal, and that it gets what the log has."""

from __future__ import annotations

from broker.errors import ErrorCode
from broker.log.journal import (
    BLOCK_BYTES,
    FILE,
    FIRST_RECORD,
    JournalEntry,
    entries_of,
    find_record,
    read_heads,
)
from broker.simulator.inodes import Inode
from broker.simulator.ring import RING_RECORD_BYTES
from tests.server.group_world import Cluster
from tests.server.journal_world import (
    RECORDS,
    append,
    begin_append,
    partition_of,
    rounds,
    simulate_with_journal,
)


def entries(cluster: Cluster) -> list[JournalEntry]:
    """Of the whole records in the journal, in the order of their places in the log."""
    inode = cluster.host.image.find(FILE)
    assert isinstance(inode, Inode)
    content = memoryview(bytes(inode.content))
    head = read_heads(bytes(content[:FIRST_RECORD])).head
    assert head is not None
    found = []
    for position in range(FIRST_RECORD, len(content), BLOCK_BYTES):
        if find_record(content[position:], position, head.run) is not None:
            found += entries_of(content[position:])
    return sorted(found, key=lambda each: each.position)


def counted(cluster: Cluster) -> tuple[float, float]:
    """Rounds that synced files, and rounds in the journal."""
    return rounds(cluster, "direct"), rounds(cluster, "journal")


async def until_answered(cluster: Cluster, answers: list[ErrorCode]) -> None:
    await cluster.until(lambda: bool(answers))
    assert set(answers) == {ErrorCode.NONE}


def test_what_was_appended_between_two_rounds_is_one_record() -> None:
    async def scenario(cluster: Cluster) -> None:
        log = partition_of(cluster, 0).log
        begin, in_journal = log.active.size, rounds(cluster, "journal")
        for count in (1, 3):
            for _ in range(count):
                answers = begin_append(cluster)
            await until_answered(cluster, answers)
        assert rounds(cluster, "journal") == in_journal + 2
        length = log.active.size - begin
        found = [each for each in entries(cluster) if each.position >= begin]
        assert [each.position for each in found] == [begin, begin + length // 4], "equal batches"
        content = b"".join(bytes(each.content) for each in found)
        assert content == log.active.file().read(begin, length)

    simulate_with_journal(scenario)


def test_a_round_of_which_a_part_was_written_early_syncs_files() -> None:
    """A checkpoint may write what is staged: that is not in the round's bytes."""

    async def scenario(cluster: Cluster) -> None:
        partition = partition_of(cluster, 0)
        before = counted(cluster)
        answers: list[ErrorCode] = []
        partition.append_records(RECORDS, answers.append)
        partition.log.flush_early()
        partition.append_records(RECORDS, answers.append)
        partition.flush()
        await until_answered(cluster, answers)
        assert counted(cluster) == (before[0] + 1, before[1])
        await append(cluster, 1)
        assert rounds(cluster, "journal") == before[1] + 1, "the next one is as always"

    simulate_with_journal(scenario)


def test_bytes_as_many_as_a_round_lacks_are_not_taken_for_them() -> None:
    """A checkpoint synced what was handed over, and another one wrote as much early."""

    async def scenario(cluster: Cluster) -> None:
        before = counted(cluster)
        partition = partition_of(cluster, 0)
        log = partition.log
        begin_append(cluster)
        log.checkpoints.finish_sync(log.begin_sync())
        answers: list[ErrorCode] = []
        partition.append_records(RECORDS, answers.append)
        log.flush_early()
        partition.flush()
        await until_answered(cluster, answers)
        assert counted(cluster) == (before[0] + 1, before[1])

    simulate_with_journal(scenario)


def test_a_round_with_a_hole_in_what_was_handed_over_syncs_files() -> None:
    """A roll wrote early between two appends."""

    async def scenario(cluster: Cluster) -> None:
        before = counted(cluster)
        partition = partition_of(cluster, 0)
        begin_append(cluster)
        partition.append_records(RECORDS, lambda _code: None)
        partition.log.flush_early()
        partition.flush()
        await until_answered(cluster, begin_append(cluster))
        assert counted(cluster) == (before[0] + 1, before[1])

    simulate_with_journal(scenario)


def test_a_record_longer_than_the_ring_s_buffer_syncs_files() -> None:
    async def scenario(cluster: Cluster) -> None:
        partition = partition_of(cluster, 0)
        before = counted(cluster)
        answers: list[ErrorCode] = []
        partition.append_records([(b"k", bytes(RING_RECORD_BYTES))], answers.append)
        partition.flush()
        await until_answered(cluster, answers)
        assert counted(cluster) == (before[0] + 1, before[1])

    simulate_with_journal(scenario)
