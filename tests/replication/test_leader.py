"""The high watermark of a leader: what the in-sync replicas have all stored, written or synced."""

import pytest

from broker.model import BrokerId
from broker.replication.leader import HighWatermarkAdvanced, PartitionLeader

ME = BrokerId(1)


def leader(
    *,
    high_watermark: int = 0,
    written_end_offset: int = 10,
    synced_end_offset: int = 4,
    needs_sync: bool = False,
) -> PartitionLeader:
    return PartitionLeader(
        ME,
        3,
        high_watermark=high_watermark,
        written_end_offset=written_end_offset,
        synced_end_offset=synced_end_offset,
        needs_sync=needs_sync,
    )


def test_a_lone_leader_commits_what_it_has_when_elected() -> None:
    machine = leader()
    assert machine.on_elected() == [HighWatermarkAdvanced(10)]
    assert machine.high_watermark == 10


def test_the_watermark_follows_the_writes() -> None:
    machine = leader()
    machine.on_elected()
    assert machine.on_written(12) == [HighWatermarkAdvanced(12)]
    assert machine.on_written(12) == []
    assert machine.high_watermark == machine.stored_end_offset == 12


def test_under_fsync_what_was_recovered_and_not_synced_is_not_committed_at_the_election() -> None:
    machine = leader(needs_sync=True)
    assert machine.on_elected() == [HighWatermarkAdvanced(4)]
    assert machine.on_synced(10) == [HighWatermarkAdvanced(10)]


def test_under_fsync_the_watermark_follows_the_syncs_alone() -> None:
    machine = leader(needs_sync=True)
    machine.on_elected()
    assert machine.on_written(12) == []
    assert machine.stored_end_offset == 4
    assert machine.on_synced(11) == [HighWatermarkAdvanced(11)]
    assert machine.on_synced(11) == []
    assert machine.stored_end_offset == 11


def test_a_sync_that_began_earlier_and_ends_later_takes_nothing_back() -> None:
    machine = leader(needs_sync=True)
    machine.on_synced(8)
    assert machine.on_synced(6) == []
    assert machine.stored_end_offset == machine.high_watermark == 8


def test_without_the_need_to_sync_what_is_written_counts_at_once() -> None:
    machine = leader(needs_sync=True)
    machine.on_elected()
    assert machine.on_durability(needs_sync=False) == [HighWatermarkAdvanced(10)]
    assert machine.on_written(11) == [HighWatermarkAdvanced(11)]


def test_the_watermark_waits_for_the_sync_when_it_becomes_needed_and_never_goes_back() -> None:
    machine = leader()
    machine.on_elected()
    assert machine.on_durability(needs_sync=True) == []
    assert machine.high_watermark == 10
    assert machine.on_written(12) == []
    assert machine.on_synced(9) == []
    assert machine.high_watermark == 10
    assert machine.on_synced(12) == [HighWatermarkAdvanced(12)]


def test_a_sync_of_a_topic_that_does_not_need_it_moves_nothing() -> None:
    machine = leader()
    machine.on_elected()
    machine.on_written(12)
    assert machine.on_synced(11) == []
    assert machine.high_watermark == 12


def test_a_written_end_that_moves_backwards_is_a_broken_invariant() -> None:
    machine = leader()
    machine.on_elected()
    with pytest.raises(AssertionError, match="never moves backwards"):
        machine.on_written(9)


def test_more_synced_than_written_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="can be synced"):
        leader().on_synced(11)
    with pytest.raises(AssertionError, match="can be synced"):
        leader(synced_end_offset=11)


def test_a_watermark_outside_the_log_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="inside the log"):
        leader(high_watermark=11)


def test_only_committed_records_may_be_deleted() -> None:
    machine = leader()
    machine.on_elected()
    machine.on_log_start(10)
    with pytest.raises(AssertionError, match="committed"):
        machine.on_log_start(11)
