"""The messageIds of the window and the first answer to each, in memory and as records of the ids
topic. Pure.

Keys are digests, so that an id's length costs nothing: `id_key`. The index is cut into generations
by age: an id is found for at least the window, at most an eighth longer, and expiry drops a whole
generation.

| record key | value                                                                             |
|------------|-----------------------------------------------------------------------------------|
| `owner`    | JSON: which process owns the topic, and the producer identity that it writes with |
| `claims`   | JSON: partitions that it may write to, from which offset on, with which identity  |
| `ids`      | JSON (partition, position), a line break, then 56 bytes for each id               |
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from hashlib import blake2b
from itertools import starmap
from typing import Any, Final, NamedTuple

from broker.model import NO_TOPIC_ID, TopicPartition

GENERATIONS: Final = 8
OWNER: Final = b"owner"
CLAIMS: Final = b"claims"
IDS: Final = b"ids"
FORMAT_VERSION: Final = 1
IDS_OF_RECORD_MAX: Final = 8_000
CLAIMS_OF_RECORD_MAX: Final = 500
TOPICS_KEPT: Final = 1_024
"""Topics whose salt is remembered."""

_ANSWER: Final = struct.Struct(">iqq16s")
_ENTRY: Final = struct.Struct(">16s16sqqq")


class FirstAnswer(NamedTuple):
    """Where the first message of an id is, the watermark it was answered with, and the digest of
    its content.
    """

    partition: int
    offset: int
    high_watermark: int
    digest: bytes


EntryRow = tuple[bytes, bytes, int, int, int]
"""An id of an `ids` record: key, digest, offset, high watermark, wall time in ms."""


class Owner(NamedTuple):
    """Who writes the ids topic, as which producer."""

    gateway: str
    producer_id: int
    producer_epoch: int


class Claim(NamedTuple):
    """The owner may write to the partition as that producer; what it wrote below `position` is in
    the ids topic. `is_open`: there may be more from `position` on.
    """

    where: TopicPartition
    topic_id: bytes
    position: int
    producer_id: int
    producer_epoch: int
    is_open: bool


class Block(NamedTuple):
    """An `ids` record: entries of a partition, all below `position`."""

    where: TopicPartition
    topic_id: bytes
    position: int
    entries: Sequence[EntryRow]


class UnknownFormat(Exception):
    """A record of the ids topic that this version cannot read."""


def id_key(topic: str, topic_id: bytes, message_id: bytes) -> bytes:
    """16 bytes for an id on a topic. A topic that was deleted and created again is another one,
    where the cluster has topic ids.
    """
    digest = _salted(topic, topic_id).copy()
    digest.update(message_id)
    return digest.digest()


def id_keys(topic: str, topic_id: bytes, message_ids: Iterable[bytes]) -> list[bytes]:
    """`id_key` of each of the ids."""
    salted = _salted(topic, topic_id)
    keys = []
    for message_id in message_ids:
        digest = salted.copy()
        digest.update(message_id)
        keys.append(digest.digest())
    return keys


@lru_cache(TOPICS_KEPT)
def _salted(topic: str, topic_id: bytes) -> blake2b:
    """Copied for each id: that costs less than to begin with the salt."""
    salt = topic_id if topic_id != NO_TOPIC_ID else blake2b(topic.encode(), digest_size=16).digest()
    return blake2b(digest_size=16, key=salt)


class IdIndex:
    """Ids by key. Times are monotonic milliseconds."""

    def __init__(self, window_ms: float) -> None:
        self._window_ms = window_ms
        self._span_ms = window_ms / GENERATIONS
        self._generations: dict[int, dict[bytes, bytes]] = {}
        self._newest_first: list[dict[bytes, bytes]] = []
        self.count = 0
        """Ids remembered."""

    def __len__(self) -> int:
        return self.count

    def has(self, key: bytes) -> bool:
        """Whether the id is known."""
        for generation in self._newest_first:  # noqa: SIM110 - a generator costs more than all of it
            if key in generation:
                return True
        return False

    def has_none(self, keys: Set[bytes]) -> bool:
        """Whether all of the ids are unknown. (A view's `isdisjoint` walks the few, a set's would
        walk all that are remembered.)
        """
        return all(each.keys().isdisjoint(keys) for each in self._newest_first)

    def find(self, key: bytes) -> FirstAnswer | None:
        """The first answer, None for an id that is not known."""
        for generation in self._newest_first:
            packed = generation.get(key)
            if packed is not None:
                return FirstAnswer._make(_ANSWER.unpack(packed))
        return None

    def add(self, key: bytes, answer: FirstAnswer, time_ms: float) -> None:
        """Remember the answer of an id that came at `time_ms`; one that is known keeps its own."""
        if any(key in each for each in self._newest_first):
            return
        self.generation(time_ms)[key] = _ANSWER.pack(*answer)
        self.count += 1

    def add_new(self, entries: Iterable[EntryRow], partition: int, time_ms: float) -> None:
        """Remember ids that are surely not known."""
        generation = self.generation(time_ms)
        before = len(generation)
        pack = _ANSWER.pack
        for key, digest, offset, high_watermark, _wall_ms in entries:
            generation[key] = pack(partition, offset, high_watermark, digest)
        self.count += len(generation) - before

    def generation(self, time_ms: float) -> dict[bytes, bytes]:
        """The ids of that time, key to packed answer; made when new."""
        number = int(time_ms // self._span_ms)
        generation = self._generations.get(number)
        if generation is None:
            generation = self._generations[number] = {}
            order = sorted(self._generations, reverse=True)
            self._newest_first = [self._generations[each] for each in order]
        return generation

    def expire(self, now_ms: float) -> None:
        """Forget the generations whose youngest id is past the window."""
        oldest = int((now_ms - self._window_ms) // self._span_ms)
        for number in [each for each in self._generations if each < oldest]:
            self.count -= len(self._generations.pop(number))
        order = sorted(self._generations, reverse=True)
        self._newest_first = [self._generations[each] for each in order]

    def room_after_ms(self, now_ms: float) -> float:
        """In how many ms the oldest ids are forgotten."""
        if not self._generations:
            return 0.0
        oldest = min(self._generations)
        return max(0.0, (oldest + 1) * self._span_ms + self._window_ms - now_ms)


def encode_owner(owner: Owner) -> bytes:
    """The value of an `owner` record."""
    return _json(
        {
            "gateway": owner.gateway,
            "producerId": str(owner.producer_id),
            "producerEpoch": owner.producer_epoch,
        }
    )


def encode_claims(claims: Iterable[Claim]) -> bytes:
    """The value of a `claims` record."""
    rows = [
        {
            **_place(claim.where, claim.topic_id, claim.position),
            "producerId": str(claim.producer_id),
            "producerEpoch": claim.producer_epoch,
            "open": claim.is_open,
        }
        for claim in claims
    ]
    return _json({"claims": rows})


def encode_block(block: Block) -> bytes:
    """The value of an `ids` record."""
    head = _json(_place(block.where, block.topic_id, block.position))
    return b"".join([head, b"\n", *starmap(_ENTRY.pack, block.entries)])


def decode(key: bytes | None, value: bytes | None) -> Iterator[Owner | Claim | Block]:
    """What a record of the ids topic says. Raises UnknownFormat."""
    if value is None or key not in {OWNER, CLAIMS, IDS}:
        return
    try:
        head, _, rest = value.partition(b"\n")
        row = json.loads(head)
        if row["version"] != FORMAT_VERSION:
            raise UnknownFormat(f"version {row['version']}")
        if key == OWNER:
            yield Owner(row["gateway"], int(row["producerId"]), row["producerEpoch"])
        elif key == CLAIMS:
            for each in row["claims"]:
                where, topic_id, position = _read_place(each)
                identity = int(each["producerId"]), each["producerEpoch"]
                yield Claim(where, topic_id, position, *identity, each["open"])
        else:
            entries = list(_ENTRY.iter_unpack(rest))
            yield Block(*_read_place(row), entries)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise UnknownFormat(repr(error)) from error


def _place(where: TopicPartition, topic_id: bytes, position: int) -> dict[str, Any]:
    return {
        "topic": where.topic,
        "topicId": topic_id.hex(),
        "partition": where.partition,
        "position": str(position),
    }


def _read_place(row: dict[str, Any]) -> tuple[TopicPartition, bytes, int]:
    where = TopicPartition(row["topic"], row["partition"])
    return where, bytes.fromhex(row["topicId"]), int(row["position"])


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps({"version": FORMAT_VERSION, **row}, separators=(",", ":")).encode()
