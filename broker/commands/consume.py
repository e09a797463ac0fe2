"""`hermes consume`: records to standard output, from places or as a member of a group."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from broker.client.consumer import Consumer
from broker.client.failure import ClientError
from broker.client.fetcher import ConsumedRecord, Fetcher
from broker.client.reading import READ_COMMITTED, READ_UNCOMMITTED
from broker.commands import text
from broker.commands.context import Context, Refused
from broker.commands.positions import resolve
from broker.commands.record_text import harmless, record_json, writer
from broker.commands.values import Start
from broker.model import TopicPartition

WAIT_MS: Final = 500
COMMIT_EVERY_MS: Final = 5_000


class Sink:
    """Prints the records that are wanted, until there are enough."""

    def __init__(self, context: Context) -> None:
        options = context.options
        self._terminal = context.terminal
        self._count_max: int | None = options.count
        self._key = None if options.key is None else os.fsencode(options.key)
        self._text = None if options.grep is None else os.fsencode(options.grep)
        self._write: Callable[[ConsumedRecord], None] = self._write_json
        if not options.json:
            to_bytes = writer(options.format, os.fsencode(options.null_marker))
            is_shown = context.terminal.is_out_a_terminal
            self._write = self._text_writer(to_bytes, is_shown=is_shown)
        self.printed = 0
        self.seen = 0

    def is_full(self) -> bool:
        """Whether nothing more is wanted."""
        return self._count_max is not None and self.printed >= self._count_max

    def take(self, record: ConsumedRecord) -> None:
        """Print it if it is wanted."""
        self.seen += 1
        if self._is_wanted(record):
            self._write(record)
            self.printed += 1

    def flush(self, total: int | None) -> None:
        """Nothing stays in a buffer; how far the search is."""
        self._terminal.flush()
        if self._key is not None or self._text is not None:
            self._terminal.progress("searched", done=self.seen, total=total)

    def _is_wanted(self, record: ConsumedRecord) -> bool:
        if self._key is not None and record.key != self._key:
            return False
        if self._text is None:
            return True
        parts = [record.key, record.value, *(value for _, value in record.headers)]
        return any(part is not None and self._text in part for part in parts)

    def _write_json(self, record: ConsumedRecord) -> None:
        self._terminal.json_line(record_json(record))

    def _text_writer(
        self, to_bytes: Callable[[ConsumedRecord], bytes], *, is_shown: bool
    ) -> Callable[[ConsumedRecord], None]:
        raw = self._terminal.raw
        if is_shown:
            return lambda record: raw(harmless(to_bytes(record)))
        return lambda record: raw(to_bytes(record))


async def consume(context: Context) -> int:
    sink = Sink(context)
    if context.options.group is not None:
        await _consume_as_member(context, sink)
    else:
        await _consume_from_places(context, sink)
    sink.flush(None)
    return 0


def _isolation(context: Context) -> int:
    return READ_COMMITTED if context.options.isolation == "committed" else READ_UNCOMMITTED


def _until_ms(context: Context) -> int | None:
    until = context.options.until
    return None if until is None else text.read_time(until, context.now_ms())


async def _consume_from_places(context: Context, sink: Sink) -> None:
    options = context.options
    partitions = await context.select(options.topic)
    bounds = await context.bounds(partitions, isolation_level=_isolation(context))
    missing = [where for where in partitions if where not in bounds]
    if missing:
        raise Refused(f"{missing[0].topic}-{missing[0].partition} has no leader now: try again")
    positions = await resolve(context, options.start or Start("start"), bounds)
    total = sum(bounds[where][1] - positions[where] for where in positions)
    fetcher = Fetcher(context.cluster, isolation_level=_isolation(context))
    fetcher.assign(positions)
    until_ms = _until_ms(context)
    try:
        while not sink.is_full():
            finished = _at_end(fetcher.positions, bounds) if options.exit else set()
            if len(finished) == len(fetcher.positions):
                return
            if finished:
                _drop(fetcher, finished)
            done: set[TopicPartition] = set()
            for record in await fetcher.poll(WAIT_MS):
                where = TopicPartition(record.topic, record.partition)
                if where in done or (options.exit and record.offset >= bounds[where][1]):
                    continue
                if until_ms is not None and record.timestamp_ms >= until_ms:
                    done.add(where)
                    continue
                sink.take(record)
                if sink.is_full():
                    return
            sink.flush(total if options.exit else None)
            if fetcher.damage is not None:
                raise fetcher.damage
            if done:
                _drop(fetcher, done)
                if not fetcher.positions:
                    return
    finally:
        fetcher.close()


def _at_end(
    positions: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, tuple[int, int]]
) -> set[TopicPartition]:
    return {where for where, position in positions.items() if position >= bounds[where][1]}


def _drop(fetcher: Fetcher, finished: Iterable[TopicPartition]) -> None:
    gone = set(finished)
    fetcher.assign(
        {where: offset for where, offset in fetcher.positions.items() if where not in gone}
    )


async def _consume_as_member(context: Context, sink: Sink) -> None:
    options = context.options
    chosen = [each.topic for each in options.topic if each.partitions is not None]
    if chosen:
        raise Refused(
            f"a group shares out partitions itself: give {chosen[0]!r} without numbers, or no "
            "--group"
        )
    for flag in ("key", "grep", "until"):
        if getattr(options, flag) is not None:
            raise Refused(f"--{flag} with --group would commit records that nobody saw")
    topics = [each.topic for each in options.topic]
    await context.topics(topics)
    ends: dict[TopicPartition, int] = {}

    async def on_assigned(assigned: Sequence[TopicPartition]) -> None:
        ends.clear()
        if options.exit:
            bounds = await context.bounds(assigned, isolation_level=_isolation(context))
            ends.update({where: end for where, (_, end) in bounds.items()})

    async def on_revoked(_held: Sequence[TopicPartition]) -> None:
        await reader.commit(printed)
        printed.clear()

    printed: dict[TopicPartition, int] = {}
    consumer = Consumer(
        context.cluster,
        options.group,
        topics,
        commits_automatically=False,
        isolation_level=_isolation(context),
        on_assigned=on_assigned,
        on_revoked=on_revoked,
    )
    reader = _Committer(context, consumer)
    await consumer.start()
    try:
        await _poll_until_done(context, sink, consumer, reader, printed, ends)
    finally:
        sink.flush(None)
        await reader.commit(printed)
        await consumer.close()


class _Committer:
    """Commits what was printed; a group that went on without us is told, not fatal."""

    def __init__(self, context: Context, consumer: Consumer) -> None:
        self._context = context
        self._consumer = consumer
        self._due_ms = 0.0

    async def commit_when_due(self, printed: dict[TopicPartition, int]) -> None:
        now_ms = self._context.cluster.clock.monotonic_ms()
        if printed and now_ms >= self._due_ms:
            self._due_ms = now_ms + COMMIT_EVERY_MS
            await self.commit(printed)

    async def commit(self, printed: dict[TopicPartition, int]) -> None:
        held = {w: offset for w, offset in printed.items() if w in self._consumer.assignment}
        if not held:
            return
        try:
            await self._consumer.commit(held)
        except ClientError as error:
            self._context.terminal.say(f"not committed, others will read it again: {error}")


async def _poll_until_done(
    context: Context,
    sink: Sink,
    consumer: Consumer,
    committer: _Committer,
    printed: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> None:
    while not sink.is_full():
        for record in await consumer.poll(WAIT_MS):
            sink.take(record)
            printed[TopicPartition(record.topic, record.partition)] = record.offset + 1
            if sink.is_full():
                return
        sink.flush(None)
        if consumer.damage is not None:
            raise consumer.damage
        await committer.commit_when_due(printed)
        positions = consumer.positions
        if (
            context.options.exit
            and ends
            and all(positions.get(where, 0) >= end for where, end in ends.items())
        ):
            return
