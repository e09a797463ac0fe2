"""One look at a cluster: groups, members and commits first, the partitions' ends after, then the
broker's metrics. Blocking; used by one thread, the sampler's.

What changes rarely (brokers, topics, log starts) is asked for every few looks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.client.blocking import (
    EARLIEST,
    LATEST,
    ClientError,
    ClusterDescription,
    GroupDescription,
    GroupListing,
    TopicPartition,
    TopicView,
)
from hermes_console.connect import new_client
from hermes_console.live.metricstext import read_metrics
from hermes_console.live.observation import (
    ClusterObserved,
    GroupObserved,
    MemberObserved,
    MetricsObserved,
    OffsetRange,
)
from hermes_console.metricsaddress import MetricsUnread, read_metrics_text
from hermes_console.samples.snapshot import BrokerSnapshot

CALL_MS_MAX: Final = 4_000
METADATA_EVERY_S: Final = 5.0
LOG_STARTS_EVERY_S: Final = 30.0
METRICS_LARGE_CHARACTERS: Final = 1024 * 1024
METRICS_LARGE_EVERY_S: Final = 5.0
GONE: Final = "Dead"
CLASSIC_TYPES: Final = frozenset({"", "classic"})


class LookFailed(Exception):
    """The cluster could not be looked at; the message says what was tried and what came back."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What changes rarely."""

    description: ClusterDescription
    topics: tuple[TopicView, ...]


class ClusterLook:
    """Keeps its connections between looks; `close` it in the end. `is_trusted`: from the
    environment, so that it may be anywhere.
    """

    def __init__(
        self, bootstrap_address: str, metrics_address: str, *, is_trusted: bool = True
    ) -> None:
        self._bootstrap = bootstrap_address
        self._metrics_address = metrics_address
        self._client = new_client(bootstrap_address, is_trusted=is_trusted, timeout_ms=CALL_MS_MAX)
        self._metadata: Metadata | None = None
        self._metadata_due_s = 0.0
        self._starts: dict[TopicPartition, int] = {}
        self._starts_due_s = 0.0
        self._moving: set[TopicPartition] = set()
        self._metrics: MetricsObserved | None = None
        self._metrics_due_s = 0.0

    def close(self) -> None:
        self._client.close()

    def cpu_s(self) -> float:
        """CPU seconds of the client's own thread so far: it decodes what brokers answer."""

        async def thread_time(_cluster: object) -> float:
            return time.thread_time()

        try:
            return self._client.run(thread_time)
        except ClientError:
            return 0.0

    def look(self) -> ClusterObserved:
        """Raises LookFailed. A metrics address that does not answer is told in the result."""
        try:
            return self._look()
        except ClientError as error:
            self._metadata_due_s = 0.0
            raise LookFailed(f"Tried {self._bootstrap}: {error}.") from error

    def _look(self) -> ClusterObserved:
        metadata = self._read_metadata()
        listings = {listing.group_id: listing for listing in self._client.list_groups()}
        names = list(listings)
        described = self._client.describe_groups(names)
        commits = self._client.committed_offsets(names)
        groups = []
        for one in described:
            committed = commits.get(one.group_id)
            known = committed if isinstance(committed, Mapping) else {}
            offsets = {key: commit.offset for key, commit in known.items() if commit.offset >= 0}
            groups.append(_group(one, listings[one.group_id], offsets))
        wanted = _partitions(groups, metadata.topics)
        # The ends come after the commits, so that no lag is below 0.
        ends = self._client.offsets(dict.fromkeys(wanted, LATEST)) if wanted else {}
        starts = self._read_starts(wanted)
        metrics, metrics_trouble = self._read_metrics()
        return ClusterObserved(
            at_ms=time.time_ns() // 1_000_000,
            cluster_id=metadata.description.cluster_id,
            brokers=_brokers(metadata.description),
            topic_ids={topic.name: topic.topic_id.hex() for topic in metadata.topics},
            partition_count=sum(len(topic.partitions) for topic in metadata.topics),
            offsets={
                key: OffsetRange(starts.get(key, 0), found.offset) for key, found in ends.items()
            },
            groups=tuple(groups),
            metrics=metrics,
            metrics_trouble=metrics_trouble,
        )

    def _read_metadata(self) -> Metadata:
        now_s = time.monotonic()
        if self._metadata is None or now_s >= self._metadata_due_s:
            self._metadata = Metadata(
                self._client.describe_cluster(), tuple(self._client.list_topics())
            )
            self._metadata_due_s = now_s + METADATA_EVERY_S
        return self._metadata

    def _read_starts(self, wanted: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        now_s = time.monotonic()
        if now_s >= self._starts_due_s or any(one not in self._starts for one in wanted):
            found = self._ask_starts(wanted)
            self._moving = {
                one for one, start in found.items() if start > self._starts.get(one, start)
            }
            self._starts = found
            self._starts_due_s = now_s + LOG_STARTS_EVERY_S
        elif self._moving:  # records expire there: the lag changes without a commit
            self._starts |= self._ask_starts([one for one in wanted if one in self._moving])
        return self._starts

    def _ask_starts(self, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._client.offsets(dict.fromkeys(wanted, EARLIEST)) if wanted else {}
        return {key: start.offset for key, start in found.items()}

    def _read_metrics(self) -> tuple[MetricsObserved | None, str]:
        """The numbers, or None and why (no reason when the cluster has no metrics address). A large
        text costs broker and console a lot: it is read every METRICS_LARGE_EVERY_S only.
        """
        if not self._metrics_address:
            return None, ""
        if self._metrics is not None and time.monotonic() < self._metrics_due_s:
            return self._metrics, ""
        self._metrics = None
        try:
            text = read_metrics_text(self._metrics_address)
        except MetricsUnread as error:
            return None, str(error)
        self._metrics = read_metrics(text)
        is_large = len(text) > METRICS_LARGE_CHARACTERS
        self._metrics_due_s = time.monotonic() + (METRICS_LARGE_EVERY_S if is_large else 0)
        return self._metrics, ""


def _group(
    described: GroupDescription, listing: GroupListing, committed: Mapping[TopicPartition, int]
) -> GroupObserved:
    """`committed` of partitions that have a commit. A group of a newer kind is listed, but this
    description does not know it ("Dead").
    """
    is_hidden = described.state == GONE and listing.group_type.lower() not in CLASSIC_TYPES
    return GroupObserved(
        name=described.group_id,
        state=(listing.state if is_hidden else described.state) or "Unknown",
        protocol=described.protocol,
        kind=listing.group_type,
        is_hidden=is_hidden,
        members=tuple(
            MemberObserved(
                member_id=member.member_id,
                instance_id=member.instance_id or "",
                client_id=member.client_id,
                client_host=member.client_host.removeprefix("/"),
                assignment=tuple(member.assignment),
            )
            for member in described.members
        ),
        committed=committed,
    )


def _partitions(
    groups: Iterable[GroupObserved], topics: Iterable[TopicView]
) -> list[TopicPartition]:
    """Every partition that some group has a commit for or a member on, and the others of topics
    that members read: one without an owner is found by that.
    """
    wanted = {one for group in groups for one in group.committed}
    owned = {one for group in groups for member in group.members for one in member.assignment}
    wanted.update(owned)
    read = {one.topic for one in owned}
    wanted.update(
        TopicPartition(topic.name, one.partition)
        for topic in topics
        if topic.name in read
        for one in topic.partitions
    )
    return sorted(wanted)


def _brokers(description: ClusterDescription) -> tuple[BrokerSnapshot, ...]:
    return tuple(
        BrokerSnapshot(
            id=node.node_id,
            host=node.host,
            port=node.port,
            rack=node.rack or "",
            is_controller=node.node_id == description.controller_id,
        )
        for node in sorted(description.nodes)
    )
