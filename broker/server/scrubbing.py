"""The rounds in which everything that is stored is checked for damage, slowly, in the background.

Not here: what a check is (`log.scrub`). Partitions go in the order of their topic's id; where a
round stands is written down, so that a big disk gets through over days and restarts. A round begins
`hermes.scrub.interval.ms` after the one before it began.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from broker.errors import Refusal
from broker.log.scrub import scrub
from broker.log.segment import Segment
from broker.ports import DiskFault, DiskFull, WorkerFault
from broker.server.pacing import Pace

if TYPE_CHECKING:
    from broker.server.node import Broker
    from broker.server.partition import Partition

FIRST_DELAY_MS: Final = 30_000
"""After a start, others go first."""
STATE_FILE: Final = "scrub-state.json"
STATE_INTERVAL_MS: Final = 60_000
"""The place of the round is written down so often; after a crash that much is checked again."""
IDLE_STEP_MS: Final = 10_000
"""How often a scrub that rests looks at its settings."""
ATTEMPTS_MAX: Final = 3
"""Of one segment, when the worker dies under it."""
_FORMAT: Final = 1

_log = structlog.get_logger("hermes.scrub")


class ScrubState(NamedTuple):
    """Where the present round stands: before the segment at `segment_base`. `finished_ms` is the
    wall time at which the last full round ended, 0 before any.
    """

    began_ms: int = 0
    is_under_way: bool = False
    topic_id: str = ""
    partition: int = 0
    segment_base: int = 0
    finished_ms: int = 0


def encode_state(state: ScrubState) -> bytes:
    """The content of STATE_FILE."""
    fields = {
        name: str(int(value) if isinstance(value, bool) else value)
        for name, value in state._asdict().items()
    }
    return (json.dumps({"format": _FORMAT, **fields}) + "\n").encode()


def decode_state(content: bytes) -> ScrubState:
    """What `encode_state` took; a new state when the content is not ours: the round begins anew."""
    try:
        fields = json.loads(content)
        if fields["format"] != _FORMAT:
            return ScrubState()
        return ScrubState(
            int(fields["began_ms"]),
            fields["is_under_way"] == "1",
            fields["topic_id"],
            int(fields["partition"]),
            int(fields["segment_base"]),
            int(fields["finished_ms"]),
        )
    except (ValueError, KeyError, TypeError):
        return ScrubState()


class _SwitchedOff(Exception):
    """The round goes on where it stands once its speed is above 0 again."""


class Scrubbing:
    """One for a broker: it checks one segment at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pace = Pace(broker.clock, lambda: max(1, self._bytes_per_second()))
        self._stored_at_ms = 0.0
        self.state = ScrubState()

    def start(self) -> None:
        """Begin the rounds."""
        self._broker.spawn(self._run())

    async def _run(self) -> None:
        with suppress(FileNotFoundError, DiskFault):  # the first round
            self.state = decode_state(self._broker.disk.read_file(STATE_FILE))
        await asyncio.sleep(min(FIRST_DELAY_MS, self._interval_ms()) / 1000)
        while True:
            if self._bytes_per_second() > 0 and (self.state.is_under_way or self._is_due()):
                with suppress(_SwitchedOff):
                    await self._round()
            await asyncio.sleep(min(IDLE_STEP_MS, self._interval_ms()) / 1000)

    def _is_due(self) -> bool:
        since_ms = self._broker.clock.wall_ms() - self.state.began_ms
        return since_ms >= self._interval_ms() or since_ms < 0  # the clock was set back

    async def _round(self) -> None:
        broker = self._broker
        if not self.state.is_under_way:
            self.state = ScrubState(
                broker.clock.wall_ms(), is_under_way=True, finished_ms=self.state.finished_ms
            )
        for partition in sorted(broker.partitions.all(), key=_order):
            place = (self.state.topic_id, self.state.partition)
            if _order(partition) < place:
                continue
            if _order(partition) > place:
                topic_id, index = _order(partition)
                self.state = self.state._replace(topic_id=topic_id, partition=index, segment_base=0)
            await self._partition(partition)
            await asyncio.sleep(0)
        now_ms = broker.clock.wall_ms()
        self.state = ScrubState(self.state.began_ms, finished_ms=now_ms)
        broker.metrics.scrub_rounds_total.add(1)
        await self._store()

    async def _partition(self, partition: Partition) -> None:
        if partition.is_offline:
            return
        for segment in list(partition.log.segments):
            if segment.base_offset < self.state.segment_base or partition.is_offline:
                continue
            self.state = self.state._replace(segment_base=segment.base_offset)
            if self._broker.clock.monotonic_ms() - self._stored_at_ms >= STATE_INTERVAL_MS:
                await self._store()
            await self._segment(partition, segment)
            partition.report_damage()

    async def _segment(self, partition: Partition, segment: Segment) -> None:
        for _ in range(ATTEMPTS_MAX):
            try:
                await scrub(partition.log, segment, self._broker.upkeep_worker, self._count)
            except WorkerFault:
                await asyncio.sleep(1)
                continue
            except Refusal:
                return  # offline or deleted meanwhile
            except (DiskFault, FileNotFoundError) as fault:
                if not partition.is_offline and segment in partition.log.segments:
                    partition.log.note_damage(f"{segment.path()} cannot be read: {fault}")
            except Exception as error:  # noqa: BLE001 - one segment's bug must not stop the others' scrub
                _log.error(
                    "a segment could not be checked", partition=str(partition), exc_info=error
                )
            return

    async def _count(self, size: int) -> None:
        self._broker.metrics.scrubbed_bytes_total.add(size)
        if self._bytes_per_second() <= 0:
            raise _SwitchedOff
        await self._pace.wait(size)

    async def _store(self) -> None:
        self._stored_at_ms = self._broker.clock.monotonic_ms()
        try:
            await self._broker.disk.replace_file(STATE_FILE, encode_state(self.state))
        except DiskFull:
            return  # after a restart the round begins where it was stored last
        except DiskFault as fault:
            _log.error("the place of the scrub could not be stored", fault=str(fault))

    def _bytes_per_second(self) -> int:
        return self._broker.settings.hermes_scrub_bytes_per_second

    def _interval_ms(self) -> int:
        return self._broker.settings.hermes_scrub_interval_ms


def _order(partition: Partition) -> tuple[str, int]:
    return partition.topic_id.hex(), partition.index
