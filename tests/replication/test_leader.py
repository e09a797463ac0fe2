"""The high watermark of a leader: what the in-sync replicas have all written."""

import pytest

from broker.model import BrokerId
from broker.replication.leader import HighWatermarkAdvanced, PartitionLeader

ME = BrokerId(1)


def leader(*, high_watermark: int = 0, written_end_offset: int = 10) -> PartitionLeader:
    return PartitionLeader(
        ME, 3, high_watermark=high_watermark, written_end_offset=written_end_offset
    )


def test_a_lone_leader_commits_what_it_has_when_elected() -> None:
    machine = leader()
    assert machine.on_elected() == [HighWatermarkAdvanced(10)]
    assert machine.high_watermark == 10


def test_the_watermark_follows_the_writes() -> None:
    machine = leader()
    machine.on_elected()
    assert machine.on_written(ME, 12) == [HighWatermarkAdvanced(12)]
    assert machine.on_written(ME, 12) == []
    assert machine.high_watermark == 12


def test_a_written_end_that_moves_backwards_is_a_broken_invariant() -> None:
    machine = leader()
    machine.on_elected()
    with pytest.raises(AssertionError, match="never moves backwards"):
        machine.on_written(ME, 9)


def test_a_watermark_outside_the_log_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="inside the log"):
        leader(high_watermark=11)


def test_only_committed_records_may_be_deleted() -> None:
    machine = leader()
    machine.on_elected()
    machine.on_log_start(10)
    with pytest.raises(AssertionError, match="committed"):
        machine.on_log_start(11)
