"""Fetches for HTTP clients: a bounded wait for messages of one partition, and commits of groups.

Each fetch under way has a connection of its own to the broker (a broker answers one parked fetch
after the other); a client that leaves ends its fetch there, too.
"""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from broker.client.batches import Batch, Record
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ClientError
from broker.client.offsets import EARLIEST, commit_offsets
from broker.client.reading import Fetched, PartitionReader
from broker.config.gateway import GatewaySettings
from broker.errors import ErrorCode
from broker.gateway.problem import Problem, problem_of
from broker.gateway.putting import find_topic
from broker.gateway.scan import end_offset, id_of
from broker.metrics import GatewayMetrics
from broker.model import INT64_MAX, TopicPartition
from broker.records.iterate import SEARCHED_RECORDS_MAX

BYTES_DEFAULT: Final = 1 << 20
MESSAGES_DEFAULT: Final = 100
MESSAGES_MAX: Final = 1_000
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest message that is handed out, unless fetch.bytes.max is larger."""
HEADER_BYTES: Final = 24
"""What a header's JSON needs besides its name and value: two stored bytes may be a header."""
IDLE_MAX: Final = 32
"""Connections kept for the next fetch."""
EARLIEST_TEXT: Final = "earliest"
LATEST_TEXT: Final = "latest"


class FetchQuery(NamedTuple):
    """What a client asks. `offset` is a number, or one of earliest and latest as EARLIEST or
    LATEST.
    """

    where: TopicPartition
    offset: int | str
    messages_max: int
    bytes_max: int
    wait_ms: int


class Reading:
    """One for the process; `close` it."""

    def __init__(
        self, cluster: Cluster, settings: GatewaySettings, metrics: GatewayMetrics
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._metrics = metrics
        self._idle: list[PartitionReader] = []
        self._count = 0
        self._unpacking = asyncio.Semaphore()

    def close(self) -> None:
        for reader in self._idle:
            reader.close()
        self._idle.clear()

    async def fetch(self, query: FetchQuery) -> dict[str, Any]:
        """The document of an answer. Raises Problem. Cancelled when the client leaves."""
        if self._count >= self._settings.fetches_max:
            raise Problem(
                "THROTTLED",
                f"{self._settings.fetches_max} fetches are under way (fetches.max): send again "
                "after Retry-After",
            )
        self._count += 1  # before anything is waited for: those that come meanwhile count, too
        self._metrics.parked_fetches.set(self._count)
        try:
            await self._check_partition(query.where)
            return await self._fetch(query)
        finally:
            self._count -= 1
            self._metrics.parked_fetches.set(self._count)

    async def _fetch(self, query: FetchQuery) -> dict[str, Any]:
        """`fetch` on a connection of its own. Raises Problem."""
        reader = self._idle.pop() if self._idle else PartitionReader(self._cluster)
        try:
            offset = await self._offset(query)
            fetched = await reader.fetch(
                *query.where, offset, bytes_max=query.bytes_max, wait_ms=query.wait_ms
            )
            document = await self._document(query, offset, fetched)
            self._metrics.messages_fetched_total.add(len(document["messages"]))
        except BrokerRefusal as error:
            reader.close()
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise await self._out_of_range(query) from None
            raise problem_of(error, str(query.where)) from None
        except ClientError as error:
            reader.close()
            raise problem_of(error, str(query.where)) from None
        except BaseException:
            reader.close()
            raise
        if len(self._idle) < IDLE_MAX:
            self._idle.append(reader)
        else:
            reader.close()
        return document

    async def _document(self, query: FetchQuery, offset: int, fetched: Fetched) -> dict[str, Any]:
        """Compressed batches are opened beside the event loop, one answer after the other: a few
        stored kilobytes may be 64 MiB. Raises Problem, BrokerRefusal.
        """
        bytes_max = max(MESSAGE_BYTES_MAX, self._settings.fetch_bytes_max)
        if all(batch.compression == "none" for batch in fetched.batches):
            messages, next_offset = _messages(query, fetched, bytes_max)
        else:
            async with self._unpacking:
                messages, next_offset = await asyncio.to_thread(
                    _messages, query, fetched, bytes_max
                )
        start = fetched.log_start_offset
        return {
            "topic": query.where.topic,
            "partition": query.where.partition,
            "offset": str(offset),
            "nextOffset": str(next_offset),
            "highWatermark": str(fetched.high_watermark),
            "logStartOffset": str(start) if start >= 0 else None,
            "messages": messages,
        }

    async def commit(self, group: str, where: TopicPartition, offset: int) -> None:
        """Store the next offset that the group reads. Raises Problem."""
        await self._check_partition(where)
        try:
            await self._cluster.call(
                lambda: commit_offsets(self._cluster, group, {where: offset}),
                what=f"commit for group {group!r}",
            )
        except ClientError as error:
            raise problem_of(error, f"group {group!r}", field="group") from None

    async def _check_partition(self, where: TopicPartition) -> None:
        view = await find_topic(self._cluster, self._settings, where.topic)
        if isinstance(view, Problem):
            raise view
        if not any(row.partition == where.partition for row in view.partitions):
            raise Problem(
                "UNKNOWN_PARTITION",
                f"topic {where.topic!r} has partitions 0 to {len(view.partitions) - 1}, "
                f"not {where.partition}",
                field="partition",
            )

    async def _offset(self, query: FetchQuery) -> int:
        if query.offset == EARLIEST_TEXT:
            return await end_offset(self._cluster, query.where, timestamp=EARLIEST)
        if query.offset == LATEST_TEXT:
            return await end_offset(self._cluster, query.where)
        return int(query.offset)

    async def _out_of_range(self, query: FetchQuery) -> Problem:
        try:
            begin = await end_offset(self._cluster, query.where, timestamp=EARLIEST)
            end = await end_offset(self._cluster, query.where)
        except ClientError as error:
            return problem_of(error, str(query.where))
        return Problem(
            "OFFSET_OUT_OF_RANGE",
            f"{query.where} holds offsets {begin} to {end} (exclusive), not {query.offset}: ask "
            "from one of these, or from earliest or latest",
            field="offset",
            more={"logStartOffset": str(begin), "highWatermark": str(end)},
        )


def parse_int(
    text: object, field: str, *, minimum: int = 0, maximum: int, default: int | None = None
) -> int:
    """A whole number as text, or as a number of JSON. Raises Problem."""
    if text is None or text == "":
        if default is None:
            raise Problem("MISSING_FIELD", f"{field}: is required", field=field)
        return default
    number = -1
    is_text = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 19
    if is_text or type(text) is int:
        number = int(str(text))
    if not minimum <= number <= maximum:
        detail = f"{field}: must be a whole number from {minimum} to {maximum}"
        raise Problem("INVALID_FIELD", detail, field=field)
    return number


def parse_offset(text: object, field: str = "offset") -> int | str:
    """A number, or one of earliest and latest. Raises Problem."""
    if isinstance(text, str) and text in {EARLIEST_TEXT, LATEST_TEXT}:
        return text
    return parse_int(text, field, maximum=INT64_MAX)


def _messages(
    query: FetchQuery, fetched: Fetched, message_bytes_max: int
) -> tuple[list[dict[str, Any]], int]:
    """(messages, where to go on): at most the bytes that the client asked for, or one message. What
    comes after them is not opened. Raises Problem, BrokerRefusal.
    """
    messages: list[dict[str, Any]] = []
    room = query.bytes_max
    for batch in fetched.batches:
        try:
            for record in _records(batch):
                if record.offset < fetched.offset:
                    continue
                size = _size(record)
                if messages and (len(messages) >= query.messages_max or size > room):
                    return messages, record.offset
                if size > message_bytes_max:
                    what = (
                        f"message {record.offset} has {size} bytes, more than {message_bytes_max}"
                    )
                    raise _too_large(query, what, record.offset + 1)
                room -= size
                messages.append(_message(record))
        except BrokerRefusal as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                raise
            if messages:
                return messages, batch.base_offset
            what = f"the batch from {batch.base_offset} on: {error}"
            raise _too_large(query, what, batch.next_offset) from None
    return messages, fetched.next_offset


def _records(batch: Batch) -> Iterator[Record]:
    """Raises BrokerRefusal: MESSAGE_TOO_LARGE beyond the bounds on bytes and records."""
    count = batch.header.record_count
    if count > SEARCHED_RECORDS_MAX:
        reason = f"{count} messages in one batch, at most {SEARCHED_RECORDS_MAX} are looked through"
        raise BrokerRefusal(ErrorCode.MESSAGE_TOO_LARGE, reason)
    return batch.records()


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + HEADER_BYTES
    return size


def _too_large(query: FetchQuery, what: str, next_offset: int) -> Problem:
    return Problem(
        "MESSAGE_TOO_LARGE",
        f"{query.where}: {what}. That is not handed out over HTTP: read it with a Kafka client, "
        f"and go on from offset {next_offset}",
        field="offset",
        more={"nextOffset": str(next_offset)},
    )


def _message(record: Record) -> dict[str, Any]:
    message_id = id_of(record)
    row: dict[str, Any] = {
        "queueOffset": str(record.offset),
        "timestampMs": str(record.timestamp),
        "messageId": _text(message_id),
        "shardingKey": _text(record.key),
        "headers": list(_headers(record)),
        "body": _base64(record.value),
    }
    if record.key is not None and row["shardingKey"] is None:
        row["shardingKeyBase64"] = _base64(record.key)
    return row


def _headers(record: Record) -> Iterator[dict[str, str | None]]:
    for name, value in record.headers:
        row = {"name": name, "value": _text(value)}
        if value is not None and row["value"] is None:
            row["valueBase64"] = _base64(value)
        yield row


def _text(value: bytes | None) -> str | None:
    """None for what is no UTF-8: then its base64 is given."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _base64(value: bytes | None) -> str | None:
    return None if value is None else binascii.b2a_base64(value, newline=False).decode()
