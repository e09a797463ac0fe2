"""Reading messages: pages of a topic, and one message. Every read needs the right to it and leaves
a row in the audit: which topic, which offsets, how many.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.client.batches import FetchedBatches
from broker.client.blocking import (
    EARLIEST,
    LATEST,
    BlockingClient,
    BrokerRefusal,
    ClientError,
    ErrorCode,
    TopicPartition,
)
from broker.client.partitioner import murmur2_partition
from hermes_console import words
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import audited
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.fetching import Fetch, fetch_from
from hermes_console.operations.messages_query import (
    PARTITIONS_MAX,
    BrowseQuery,
    Cursor,
    Direction,
    Start,
    is_topic_name,
)
from hermes_console.operations.messages_reading import Page, Stop, read_page
from hermes_console.operations.messages_rows import Message, messages_of

RANGES_AUDITED_MAX: Final = 64
ONE_RECORD_BYTES: Final = 1024 * 1024
STOPPED: Final = {
    Stop.FULL: "the page is full",
    Stop.END: "there are no more",
    Stop.BYTES: "{bytes} were read, as much as one page may",
    Stop.SECONDS: "{seconds} passed, as long as one page may take",
}


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What reading and producing need to know of a topic. Settings are None when the cluster does
    not tell them; `ranges` are the offsets [start, end) per partition.
    """

    name: str
    partition_count: int
    ranges: Mapping[int, tuple[int, int]]
    cleanup_policy: str | None
    max_message_bytes: int | None
    timestamp_type: str | None

    @property
    def count(self) -> int:
        """Messages, if there were one at every offset."""
        return sum(end - start for start, end in self.ranges.values())

    @property
    def is_count_estimated(self) -> bool:
        """Compaction leaves gaps, and markers of transactions take offsets of their own."""
        return self.cleanup_policy is None or "compact" in self.cleanup_policy


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page of messages, sorted as the query asks. A cursor is None where nothing can follow."""

    topic: TopicFacts
    messages: list[Message]
    partitions: list[int]
    stop: Stop
    stopped_because: str
    scanned: int
    read_bytes: int
    older: Cursor | None
    newer: Cursor | None
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Read:
    """One offset: its message, or (None) why there is none. `topic` says which offsets exist."""

    topic: TopicFacts
    message: Message | None
    reason: str


def browse(
    actor: Actor,
    cluster: Cluster,
    topic: str,
    query: BrowseQuery,
    *,
    action: str = "messages.browse",
) -> Browsed:
    """A page of `topic`. Raises NotAllowed, Refused, ClientError."""
    with audited(actor, Right.MESSAGES_READ, action, cluster=cluster, target=topic) as act:
        client = client_for(cluster)
        facts = topic_facts(client, topic)
        partitions = _partitions(facts, query)
        ranges, notes = _ranges(client, facts, query, partitions)
        page = read_page(
            fetch_from(client, topic),
            ranges,
            query.direction,
            query.budget,
            key=query.key,
            clock_s=time.monotonic,
        )
        act.after = _audited_page(query, page, ranges)
    return _browsed(facts, query, page, ranges, notes)


def read_one(actor: Actor, cluster: Cluster, topic: str, partition: int, offset: int) -> Read:
    """The message at an offset. Raises NotAllowed, Refused, ClientError."""
    with audited(actor, Right.MESSAGES_READ, "messages.read", cluster=cluster, target=topic) as act:
        client = client_for(cluster)
        facts = topic_facts(client, topic, only=partition)
        start, end = facts.ranges[partition]
        message = None
        if start <= offset < end:
            message = find_one(fetch_from(client, topic), partition, offset)
        act.after = {"partition": partition, "offset": str(offset), "messages": int(bool(message))}
    return Read(facts, message, "" if message else _absent(facts, partition, offset))


def find_one(
    fetch: Fetch, partition: int, offset: int, *, partition_bytes: int = ONE_RECORD_BYTES
) -> Message | None:
    """The message at exactly that offset; None when there is none (compacted, or expired)."""
    answer = fetch_at(fetch, partition, offset, partition_bytes=partition_bytes)
    return None if answer is None else message_in(answer, partition, offset)


def fetch_at(
    fetch: Fetch, partition: int, offset: int, *, partition_bytes: int
) -> FetchedBatches | None:
    """What is stored from that offset on; None when the offset is out of range."""
    answer = fetch({partition: offset}, partition_bytes).get(partition)
    if isinstance(answer, BrokerRefusal):
        if answer.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        raise answer
    return answer


def message_in(answer: FetchedBatches, partition: int, offset: int) -> Message | None:
    """The message at exactly that offset, which lies within what was fetched."""
    for batch in answer.batches():
        if batch.next_offset > offset:
            return next(messages_of(batch, partition, offset, offset + 1), None)
    return None


def topic_facts(client: BlockingClient, topic: str, *, only: int | None = None) -> TopicFacts:
    """What the cluster tells of the topic now (`only`: offsets of that partition alone).

    Raises Refused for a partition that is not there, ClientError.
    """
    check_name(topic)
    view = client.describe_topic(topic)
    numbers = [row.partition for row in view.partitions]
    if only is not None:
        if only not in numbers:
            raise no_partition(topic, only, len(numbers))
        numbers = [only]
    wanted = [TopicPartition(topic, number) for number in numbers]
    starts = client.offsets(dict.fromkeys(wanted, EARLIEST))
    ends = client.offsets(dict.fromkeys(wanted, LATEST))
    ranges = {
        where.partition: (starts[where].offset, max(starts[where].offset, ends[where].offset))
        for where in wanted
        if where in starts and where in ends
    }
    if only is not None and only not in ranges:
        raise Refused(
            503, "no-leader", f"Partition {only} of {topic} has no leader now. Try again later."
        )
    configs = _configs(client, topic)
    size = configs.get("max.message.bytes") or ""
    return TopicFacts(
        name=topic,
        partition_count=len(view.partitions),
        ranges=ranges,
        cleanup_policy=configs.get("cleanup.policy"),
        max_message_bytes=int(size) if size.isdecimal() else None,
        timestamp_type=configs.get("message.timestamp.type"),
    )


def check_name(topic: str) -> None:
    """Raises Refused for what no topic is named."""
    if not is_topic_name(topic):
        raise Refused(
            404,
            "no-such-topic",
            "There is no such topic: a topic's name has 1 to 249 of a-z, A-Z, 0-9, '.', '_' and "
            "'-'.",
        )


def no_partition(topic: str, partition: int, count: int) -> Refused:
    return Refused(
        404,
        "no-such-partition",
        f"Topic {topic} has no partition {partition}: it has {count}, counted from 0.",
    )


def _configs(client: BlockingClient, topic: str) -> dict[str, str | None]:
    """The topic's settings; empty when the cluster does not tell them."""
    try:
        found = client.topic_configs([topic]).get(topic, {})
    except ClientError:
        return {}
    return {name: entry.value for name, entry in found.items()}


def _partitions(facts: TopicFacts, query: BrowseQuery) -> list[int]:
    """Which partitions the query reads. Raises Refused."""
    if query.partition is not None:
        if not 0 <= query.partition < facts.partition_count:
            raise no_partition(facts.name, query.partition, facts.partition_count)
        return [query.partition]
    if query.key is not None and not query.is_everywhere and facts.partition_count:
        return [murmur2_partition(query.key, facts.partition_count)]
    if facts.partition_count > PARTITIONS_MAX:
        raise Refused(
            422,
            "too-many-partitions",
            f"{facts.name} has {facts.partition_count} partitions, a page reads at most "
            f"{PARTITIONS_MAX}. Choose one partition.",
        )
    return list(range(facts.partition_count))


def _ranges(
    client: BlockingClient, facts: TopicFacts, query: BrowseQuery, partitions: list[int]
) -> tuple[dict[int, tuple[int, int]], list[str]]:
    """The offsets to read per partition, and what to tell about them."""
    notes = [
        f"Partition {number} has no leader now: it is not shown."
        for number in partitions
        if number not in facts.ranges
    ]
    ranges = {number: facts.ranges[number] for number in partitions if number in facts.ranges}
    if query.cursor is not None:
        return _from_cursor(ranges, query.cursor), notes
    if query.start is Start.OFFSET:
        if query.partition is not None and ranges:
            start, end = ranges[query.partition]
            if query.offset < start:
                notes.append(f"The partition begins at offset {start}: shown from there.")
            elif query.offset >= end:
                notes.append(f"There is no offset {query.offset} yet: the partition ends at {end}.")
        return {
            number: (min(max(start, query.offset), end), end)
            for number, (start, end) in ranges.items()
        }, notes
    if query.start is Start.TIME:
        wanted = {TopicPartition(facts.name, number): query.at_ms for number in ranges}
        found = client.offsets(wanted)
        for number, (start, end) in ranges.items():
            at = found.get(TopicPartition(facts.name, number))
            first = end if at is None or at.offset < 0 else at.offset
            ranges[number] = (min(max(start, first), end), end)
    return ranges, notes


def _from_cursor(
    ranges: Mapping[int, tuple[int, int]], cursor: Cursor
) -> dict[int, tuple[int, int]]:
    found = {}
    for number, (start, end) in ranges.items():
        at = cursor.positions.get(number)
        if at is None:  # a partition that came after the first page
            at = start
        at = min(max(start, at), end)
        found[number] = (start, at) if cursor.direction is Direction.OLDER else (at, end)
    return found


def _browsed(
    facts: TopicFacts,
    query: BrowseQuery,
    page: Page,
    ranges: Mapping[int, tuple[int, int]],
    notes: list[str],
) -> Browsed:
    is_older = query.direction is Direction.OLDER
    messages = page.messages
    if is_older != query.is_newest_first:
        messages = messages[::-1]
    if is_older:
        older: Mapping[int, int] = page.left
        newer: Mapping[int, int] = {number: end for number, (_, end) in ranges.items()}
    else:
        older = {number: start for number, (start, _) in ranges.items()}
        newer = page.left
    has_older = any(at > facts.ranges[number][0] for number, at in older.items())
    because = STOPPED[page.stop].format(
        bytes=words.size(query.budget.bytes), seconds=words.duration(query.budget.seconds)
    )
    return Browsed(
        topic=facts,
        messages=messages,
        partitions=sorted(ranges),
        stop=page.stop,
        stopped_because=because,
        scanned=page.scanned,
        read_bytes=page.read_bytes,
        older=Cursor(Direction.OLDER, older) if has_older else None,
        newer=Cursor(Direction.NEWER, newer) if newer else None,
        notes=notes,
    )


def _audited_page(
    query: BrowseQuery, page: Page, ranges: Mapping[int, tuple[int, int]]
) -> dict[str, object]:
    """Which offsets were read and how many messages were handed out."""
    is_older = query.direction is Direction.OLDER
    read = {
        str(number): [page.left[number], end] if is_older else [start, page.left[number]]
        for number, (start, end) in ranges.items()
    }
    kept = dict(list(read.items())[:RANGES_AUDITED_MAX])
    return {
        "offsets": {number: [str(one) for one in pair] for number, pair in kept.items()},
        "partitions": len(read),
        "messages": len(page.messages),
        "by_key": query.key is not None,
        "stopped": page.stop.value,
    }


def _absent(facts: TopicFacts, partition: int, offset: int) -> str:
    start, end = facts.ranges[partition]
    if offset >= end:
        return f"Offset {offset} is not written yet: partition {partition} ends at {end}."
    if offset < start:
        return f"Offset {offset} is gone: partition {partition} begins at {start} now."
    return (
        f"There is no message at offset {offset}: it was compacted away, "
        "or it never held a message."
    )
