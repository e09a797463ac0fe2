"""`hermes produce`: records from arguments or standard input, in order, with bounded memory.

The first record that cannot be stored ends it: what follows it in the input is not sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from broker.client.failure import ClientError
from broker.client.lane import Delivery, RecordMetadata
from broker.client.producer import Producer
from broker.commands import text
from broker.commands.context import Context
from broker.commands.input import read_chunks
from broker.commands.record_text import Parsed, parse_json, parse_text, split
from broker.commands.terminal import int64

ACKS: Final = {"all": -1, "1": 1, "0": 0}


class Stored(NamedTuple):
    """What arrived in one partition. Offsets are -1 with acks=0."""

    record_count: int
    first_offset: int
    last_offset: int


class Tally:
    """Counts deliveries; keeps the first failure."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_verbose = context.options.verbose
        self.partitions: dict[int, Stored] = {}
        self.failure: BaseException | None = None

    @property
    def count(self) -> int:
        return sum(row.record_count for row in self.partitions.values())

    def on_done(self, delivery: Delivery) -> None:
        """A delivery's callback."""
        if delivery.cancelled():
            return
        failure = delivery.exception()
        if failure is not None:
            self.failure = self.failure or failure
            return
        found: RecordMetadata = delivery.result()
        before = self.partitions.get(found.partition)
        first = found.offset if before is None else before.first_offset
        count = 1 if before is None else before.record_count + 1
        self.partitions[found.partition] = Stored(count, first, found.offset)
        if self._is_verbose:
            self._context.terminal.line(f"{found.topic} {found.partition} {found.offset}")


async def produce(context: Context) -> int:
    options, terminal = context.options, context.terminal
    await context.topics([options.topic])
    timestamp = options.timestamp
    timestamp_ms = None if timestamp is None else text.read_time(timestamp, context.now_ms())
    producer = Producer(context.cluster, acks=ACKS[options.acks], compression=options.compression)
    tally = Tally(context)
    await producer.start()
    try:
        async for record in _records(context):
            if tally.failure is not None:
                break
            delivery = await producer.send(
                options.topic,
                record.value,
                key=record.key,
                partition=options.partition,
                headers=(*options.header, *record.headers),
                timestamp_ms=record.timestamp_ms if timestamp_ms is None else timestamp_ms,
            )
            delivery.add_done_callback(tally.on_done)
            terminal.progress(f"stored in {options.topic}", done=tally.count)
        await producer.flush()
    finally:
        await producer.close()
        _show(context, tally)
    if tally.failure is not None:
        reason = f"stopped after {text.plural(tally.count, 'record')}: {tally.failure}"
        if isinstance(tally.failure, ClientError):
            tally.failure.args = (reason,)  # its kind stays, and with it the exit code
        raise tally.failure
    return 0


async def _records(context: Context) -> AsyncIterator[Parsed]:
    options = context.options
    key = None if options.key is None else os.fsencode(options.key)
    marker = None if options.null_marker is None else os.fsencode(options.null_marker)
    separator = None if options.key_separator is None else os.fsencode(options.key_separator)
    if options.value:
        for number, word in enumerate(options.value, 1):
            yield parse_text(
                os.fsencode(word), f"value {number}", key=key, separator=separator, marker=marker
            )
        return
    chunks = read_chunks(sys.stdin.fileno())
    if options.format == "whole":
        pieces = split(chunks, None)
    else:
        is_json = options.format == "json"
        pieces = split(chunks, b"\n" if is_json else os.fsencode(options.delimiter))
    number = 0
    async for piece in pieces:
        number += 1
        name = f"line {number}"
        if options.format == "json":
            if piece.strip():
                yield parse_json(piece, name, key=key)
        else:
            yield parse_text(piece, name, key=key, separator=separator, marker=marker)


def _show(context: Context, tally: Tally) -> None:
    terminal, topic = context.terminal, context.options.topic
    for partition, row in sorted(tally.partitions.items()):
        is_known = row.last_offset >= 0
        terminal.item(
            topic=topic,
            partition=partition,
            count=int64(row.record_count),
            first_offset=int64(row.first_offset) if is_known else None,
            last_offset=int64(row.last_offset) if is_known else None,
        )
    if terminal.is_json or not tally.partitions:
        return
    places = [
        f"partition {partition} ({row.first_offset} to {row.last_offset})"
        if row.last_offset >= 0
        else f"partition {partition}"
        for partition, row in sorted(tally.partitions.items())
    ]
    named = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
    done = "sent" if context.options.acks == "0" else "stored"
    terminal.say(f"{text.plural(tally.count, 'record')} {done} in {topic}: {named}")
