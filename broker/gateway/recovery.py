"""Opens the ids topic: takes it over from whoever had it, and reads what the window still holds.

The order matters: read; write the owner record in the next epoch, which fences the owner before;
read what that one wrote meanwhile; read the partitions that it had open, each from its position on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from broker.client.admin import NewTopic, create_topics
from broker.client.cluster import Cluster, TopicView
from broker.client.failure import BrokerRefusal, ClientError
from broker.config.gateway import GatewaySettings
from broker.errors import ErrorCode
from broker.gateway.ids import (
    OWNER,
    Block,
    Claim,
    FirstAnswer,
    Owner,
    UnknownFormat,
    decode,
    encode_owner,
)
from broker.gateway.lane import EPOCH_MAX, Call, Lane, Put
from broker.gateway.ledger import Ledger, new_identity
from broker.gateway.problem import Problem, problem_of
from broker.gateway.scan import end_offset, read_records
from broker.gateway.sender import Sender
from broker.metrics import GatewayMetrics
from broker.model import TopicPartition
from broker.records.build import encode_body

KEEP_WINDOWS: Final = 4
KEEP_MS_MIN: Final = 3_600_000
SEGMENT_BYTES: Final = 64 << 20
READ_WINDOWS: Final = 1.5
"""How much of the ids topic is read: the window, and what clocks and refreshes may be late."""
READERS: Final = 8

_log = structlog.get_logger("hermes.gateway")


class TopicRefused(Exception):
    """The ids topic cannot be used; the sentence says what to do."""


async def recover(
    cluster: Cluster,
    sender: Sender,
    metrics: GatewayMetrics,
    settings: GatewaySettings,
    *,
    gateway: str,
    on_fenced: Callable[[str], None],
) -> Ledger:
    """The ledger, with every id of the window. `gateway` names this process.

    Raises ClientError or Problem when the cluster cannot be asked now, TopicRefused for good.
    """
    view = await ensure_topic(cluster, settings)
    where = TopicPartition(view.name, 0)
    history = History()
    begin_ms = cluster.clock.wall_ms() - int(settings.dedup_window_ms * READ_WINDOWS)
    begin = await end_offset(cluster, where, timestamp=max(0, begin_ms))
    end = await end_offset(cluster, where)
    await history.read(cluster, where, begin, end)
    owner = await next_owner(cluster, history.owner, gateway)
    lane = sender.lane(*where, view.topic_id)
    lane.identify(owner.producer_id, owner.producer_epoch)
    lane.is_claimed = True
    ledger = Ledger(
        cluster,
        sender,
        metrics,
        lane,
        owner,
        producer_id=(await new_identity(cluster)).producer_id,
        window_ms=settings.dedup_window_ms,
        on_fenced=on_fenced,
    )
    await sender.start(ledger)
    offset = await own(sender, lane, owner, cluster.clock.monotonic_ms())
    await history.read(cluster, where, end, offset)
    history.give_to(ledger, cluster, metrics, settings.dedup_window_ms)
    await read_open_claims(ledger)
    return ledger


async def ensure_topic(cluster: Cluster, settings: GatewaySettings) -> TopicView:
    """The ids topic, created when it is missing. Raises ClientError, TopicRefused."""
    name = settings.dedup_topic

    async def find() -> TopicView | None:
        try:
            return await cluster.topic(name)
        except BrokerRefusal as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise

    view = await cluster.call(find, what=f"find topic {name!r}")
    if view is None:
        view = await _create_topic(cluster, settings)
    if len(view.partitions) != 1:
        raise TopicRefused(
            f"topic {name!r} has {len(view.partitions)} partitions, but ids are kept in one: name "
            "another topic in dedup.topic, which is created then"
        )
    return view


async def _create_topic(cluster: Cluster, settings: GatewaySettings) -> TopicView:
    name = settings.dedup_topic
    kept_ms = max(KEEP_WINDOWS * settings.dedup_window_ms, KEEP_MS_MIN)
    topic = NewTopic(
        name,
        1,
        settings.dedup_topic_replication_factor,
        {
            "cleanup.policy": "delete",
            "retention.ms": str(kept_ms),
            "segment.ms": str(kept_ms // KEEP_WINDOWS),
            "segment.bytes": str(SEGMENT_BYTES),
        },
    )
    try:
        await create_topics(cluster, [topic])
    except BrokerRefusal as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise TopicRefused(f"topic {name!r} for the ids cannot be created: {error}") from None

    async def attempt() -> TopicView:
        cluster.forget_topic(name)
        try:
            return await cluster.topic(name)
        except BrokerRefusal as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                error.is_retriable = True  # created a moment ago: the metadata follow
            raise

    return await cluster.call(attempt, what=f"find topic {name!r}")


async def next_owner(cluster: Cluster, before: Owner | None, gateway: str) -> Owner:
    """Who writes from now on: the same producer in its next epoch, so that the one before is
    fenced. Raises ClientError.
    """
    if before is None or before.producer_epoch >= EPOCH_MAX:
        return (await new_identity(cluster))._replace(gateway=gateway)
    return Owner(gateway, before.producer_id, before.producer_epoch + 1)


async def own(sender: Sender, lane: Lane, owner: Owner, now_ms: float) -> int:
    """Write the owner record; its offset. Raises Problem."""
    call = Call(1, asyncio.get_running_loop().create_future(), float("inf"))
    put = Put(encode_body(OWNER, encode_owner(owner), ()), b"", b"", call, 0, is_kept=False)
    lane.append(put, -1, now_ms)
    sender.on_appended(lane, put.size)
    await call.future
    (outcome,) = call.outcomes
    assert outcome is not None, "a finished call has its outcome"
    if isinstance(outcome, Problem):
        raise outcome
    return outcome.offset


async def read_open_claims(ledger: Ledger) -> None:
    """Read the partitions that were open; one that cannot be read now is read before the first put
    to its topic.
    """
    ledger.unread = {where for where, claim in ledger.claims.items() if claim.is_open}
    turns = asyncio.Semaphore(READERS)

    async def read(topic: str) -> None:
        async with turns:
            try:
                await ledger.read_claims(topic)
            except Problem as problem:
                _log.warning("ids are read later", topic=topic, reason=problem.detail)

    async with asyncio.TaskGroup() as group:
        for topic in {where.topic for where in ledger.unread}:
            group.create_task(read(topic))


class History:
    """What the ids topic says: the last owner, the last claim of each partition, all ids."""

    def __init__(self) -> None:
        self.owner: Owner | None = None
        self.claims: dict[TopicPartition, Claim] = {}
        self.blocks: list[Block] = []

    async def read(self, cluster: Cluster, where: TopicPartition, begin: int, end: int) -> None:
        """Take in the records between two offsets. Raises ClientError, TopicRefused."""
        async for records, _ in read_records(cluster, where, begin, end):
            for record in records:
                try:
                    for row in decode(record.key, record.value):
                        self.apply(row)
                except UnknownFormat as error:
                    raise TopicRefused(
                        f"record {record.offset} of topic {where.topic!r} is none of this "
                        f"version's ({error}): start the gateway that wrote it, or name another "
                        "topic in dedup.topic"
                    ) from None

    def apply(self, row: Owner | Claim | Block) -> None:
        """In the topic's order. An epoch below one that was told before is no news: a
        record may be written late, and whoever believed it would take an epoch that is taken, and
        be refused for ever.
        """
        if isinstance(row, Owner):
            if not _is_behind(row, self.owner):
                self.owner = row
        elif isinstance(row, Claim):
            last = self.claims.get(row.where)
            if last is None or last.topic_id != row.topic_id or not _is_behind(row, last):
                self.claims[row.where] = row
        else:
            self.blocks.append(row)
            claim = self.claims.get(row.where)
            if claim is not None and claim.topic_id == row.topic_id:
                self.claims[row.where] = claim._replace(position=max(claim.position, row.position))

    def give_to(
        self, ledger: Ledger, cluster: Cluster, metrics: GatewayMetrics, window_ms: float
    ) -> None:
        """Fill the ledger; ids that are past the window are left out."""
        now_ms, now_wall_ms = cluster.clock.monotonic_ms(), cluster.clock.wall_ms()
        count = 0
        for block in self.blocks:
            partition = block.where.partition
            for key, digest, offset, high_watermark, time_ms in block.entries:
                age_ms = max(0, now_wall_ms - time_ms)
                if age_ms <= window_ms:
                    answer = FirstAnswer(partition, offset, high_watermark, digest)
                    ledger.index.add(key, answer, now_ms - age_ms)
                    count += 1
        self.blocks.clear()
        metrics.recovered_ids_total.add(count, source="ids")
        ledger.claims.update(self.claims)


def _is_behind(row: Owner | Claim, last: Owner | Claim | None) -> bool:
    """Whether it is the same producer's, in an earlier epoch."""
    return (
        last is not None
        and row.producer_id == last.producer_id
        and row.producer_epoch < last.producer_epoch
    )


def refusal_of(error: ClientError | Problem) -> str:
    """One sentence for the log and /readyz."""
    return error.detail if isinstance(error, Problem) else problem_of(error, "the cluster").detail
