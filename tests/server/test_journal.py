"""The journal's file in a simulated broker: begun when there is room, given up while it is written
to, ended at a stop.
"""

from __future__ import annotations

import asyncio

import pytest

from broker.errors import ErrorCode
from broker.log.journal import FILE, FIRST_RECORD, NO_RUN, read_heads
from broker.ports import DiskFault, DiskFull, RingFile
from broker.server.journal import RETRY_MS
from broker.server.syncing import SyncRounds
from broker.simulator.inodes import Inode
from broker.simulator.ring import SimulatedRing
from tests.server.group_world import Cluster, simulate
from tests.server.journal_world import (
    ENOUGH,
    SETTINGS,
    append,
    begin_append,
    files,
    partition_of,
    rounds,
    simulate_with_journal,
)


async def fail(_ring: SimulatedRing, _position: int, _size: int) -> None:
    raise DiskFault(FILE, "injected")


def test_a_journal_without_room_is_begun_a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.prepare()

        async def refuse(path: str, _spare_bytes: int) -> RingFile:
            raise DiskFull(path, "injected")

        with monkeypatch.context() as full:
            full.setattr(cluster.broker.disk, "open_ring", refuse)
            await append(cluster, ENOUGH)
        await append(cluster, ENOUGH)
        assert rounds(cluster, "journal") == 0, "not at once"
        await asyncio.sleep(RETRY_MS / 1000)
        await append(cluster, ENOUGH)
        assert rounds(cluster, "journal") > 0

    simulate(scenario, SETTINGS)


def test_a_journal_that_cannot_be_ended_stays_for_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        broken = cluster.broker
        with monkeypatch.context() as failing:
            failing.setattr(SimulatedRing, "write", fail)
            await broken.sync_rounds.settle_at_stop()
        inode = cluster.host.image.find(FILE)
        assert isinstance(inode, Inode)
        head = read_heads(bytes(inode.content[:FIRST_RECORD])).head
        assert head is not None
        assert head.run != NO_RUN
        await append(cluster, 2)
        await cluster.restart()
        assert cluster.broker.metrics.journal_replayed_records_total.labels().value > 0
        assert partition_of(cluster, 0).log.log_end_offset == ENOUGH + 2

    simulate_with_journal(scenario)


def test_a_journal_given_up_while_it_is_written_to_answers_and_is_closed_behind_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        steps: list[str] = []
        may_write = asyncio.Event()
        write, close = SimulatedRing.write, SimulatedRing.close

        async def write_late(ring: SimulatedRing, position: int, size: int) -> None:
            steps.append("begin")
            await may_write.wait()
            await write(ring, position, size)
            steps.append("written")

        def note_close(ring: SimulatedRing) -> None:
            steps.append("closed")
            close(ring)

        monkeypatch.setattr(SimulatedRing, "write", write_late)
        monkeypatch.setattr(SimulatedRing, "close", note_close)
        answers = begin_append(cluster)
        await cluster.until(lambda: steps == ["begin"])
        cluster.broker.journal.give_up()
        assert not answers
        may_write.set()
        await cluster.until(lambda: answers == [ErrorCode.NONE])
        assert steps == ["begin", "written", "closed"]
        direct = rounds(cluster, "direct")
        await append(cluster, 3)
        assert rounds(cluster, "direct") == direct + 3

    simulate_with_journal(scenario)


def test_after_a_fault_of_the_journal_the_files_of_all_that_it_has_are_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        for index in (1, 2):
            await append(cluster, 3, index)  # the name of its file, then the journal
        in_rounds, in_files = rounds(cluster, "direct"), files(cluster, "direct")
        with monkeypatch.context() as failing:
            failing.setattr(SimulatedRing, "write", fail)
            await append(cluster, 1)
        assert rounds(cluster, "direct") == in_rounds + 1
        assert files(cluster, "direct") == in_files + 3
        assert not cluster.broker.journal.settling

    simulate_with_journal(scenario)


def test_a_bug_in_syncing_a_half_ends_the_journal_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        async def break_down(_rounds: SyncRounds) -> None:
            raise RuntimeError("injected")

        with monkeypatch.context() as broken:
            broken.setattr(SyncRounds, "_settle", break_down)
            cluster.broker.journal.is_left.set()
            await cluster.until(lambda: not cluster.broker.journal.is_open)
        (finding,) = cluster.world.findings
        assert "the journal is kept for the next start" in finding
        cluster.world.findings.clear()
        direct = rounds(cluster, "direct")
        await append(cluster, 3)
        assert rounds(cluster, "direct") == direct + 3
        await cluster.restart()
        assert partition_of(cluster, 0).log.log_end_offset == ENOUGH + 3

    simulate_with_journal(scenario)
