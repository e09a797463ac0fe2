"""A cluster as a client sees it: brokers, versions, topics, leaders, coordinators; and calls that
are tried again.

Not here: what the calls mean. Metadata is asked for when it is needed, missing, too old or proved
wrong; connections are opened when they are needed and kept, one per broker and purpose (a parked
fetch must not hold up a heartbeat). There are no background tasks. Everything runs on one event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from broker.client.connection import Connection, connect
from broker.client.failure import BrokerRefusal, ClientError, ConnectionLost, TimedOut, Unsupported
from broker.client.negotiation import ApiRanges, choose_version, negotiate
from broker.config.client import ClientSettings
from broker.errors import ErrorCode, error_code
from broker.model import NO_TOPIC_ID
from broker.ports import Clock, IdSource, Network
from broker.wire import api
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")
CONNECTIONS_MAX: Final = 256
ANY_NODE: Final = -1
MANY_COORDINATORS_FROM: Final = 4


class Node(NamedTuple):
    """A broker's id and advertised address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionView(NamedTuple):
    """A partition as the metadata describes it; `leader` is -1 when there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    error_code: ErrorCode


class TopicView(NamedTuple):
    """A topic as the metadata describes it. `topic_id` is 16 bytes, zero when the cluster has no
    ids.
    """

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionView, ...]


class _Target(NamedTuple):
    """What a connection is for: `purpose` tells connections to the same broker apart."""

    node_id: int
    host: str
    port: int
    purpose: str


class _Link(NamedTuple):
    connection: Connection
    ranges: ApiRanges


class Cluster:
    """`close` it in the end. Methods raise ClientError; a cancelled call leaves all usable."""

    def __init__(
        self, network: Network, clock: Clock, ids: IdSource, settings: ClientSettings
    ) -> None:
        self.clock = clock
        self.ids = ids
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicView] = {}
        self.cluster_id: str | None = None
        self.controller_id = ANY_NODE
        self._network = network
        self._links: dict[_Target, _Link] = {}
        self._opening: dict[_Target, asyncio.Lock] = {}
        self._coordinators: dict[str, int] = {}
        self._refreshed_ms: dict[str, float] = {}
        self._bootstrap_index = ids.below(len(settings.bootstrap_servers))
        self._purpose_count = 0
        self._is_closed = False

    async def start(self) -> None:
        """Returns when some broker has answered; optional. Raises as `call`."""
        await self.call(lambda: self.refresh([]), what="reach the cluster")

    async def close(self) -> None:
        """Every waiting request fails; nothing can be asked afterwards."""
        self._is_closed = True
        for link in self._links.values():
            link.connection.close()
        self._links.clear()

    async def call(
        self, attempt: Callable[[], Awaitable[T]], *, what: str, timeout_ms: int | None = None
    ) -> T:
        """The result of `attempt`, tried again after retriable failures, with growing pauses.

        Raises its ClientError when that is final, or TimedOut (naming the last failure) after
        `timeout_ms`, which is the request timeout when None.
        """
        allowed_ms = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.monotonic_ms() + allowed_ms
        pause_ms: float = self.settings.retry_backoff_ms
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if not error.is_retriable or self._is_closed:
                    raise
                left_ms = deadline_ms - self.clock.monotonic_ms()
                if left_ms <= pause_ms:
                    msg = f"could not {what} within {allowed_ms} ms: {error}"
                    raise TimedOut(msg) from error
            await asyncio.sleep(self.jittered(pause_ms) / 1000)
            pause_ms = min(pause_ms * 2, self.settings.retry_backoff_max_ms)

    def jittered(self, pause_ms: float) -> float:
        """`pause_ms` plus or minus a fifth, so that many clients do not return together."""
        return pause_ms * (0.8 + self.ids.below(401) / 1000)

    async def request(
        self,
        node_id: int,
        api_key: int,
        message: Any,
        *,
        purpose: str = "",
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> Any:
        """One answer from that broker (ANY_NODE: whichever is connected), in the highest common
        version.

        `timeout_ms` adds to the request timeout what the broker may wait on purpose. Raises
        ConnectionLost, TimedOut or Unsupported; error codes inside the answer are the caller's.
        """
        link = await self._link(node_id, purpose)
        version = choose_version(link.ranges, api_key, max_version)
        return await link.connection.request(
            api_key,
            version,
            self.settings.client_id,
            message,
            timeout_ms=self.settings.request_timeout_ms + (timeout_ms or 0),
        )

    async def version(self, node_id: int, api_key: int, *, purpose: str = "") -> int:
        """The version that `request` would use."""
        link = await self._link(node_id, purpose)
        return choose_version(link.ranges, api_key, None)

    async def api_ranges(self, node_id: int) -> ApiRanges:
        """What that broker (ANY_NODE: whichever is connected) offers. Raises as `request`."""
        return dict((await self._link(node_id, "")).ranges)

    async def send(self, node_id: int, api_key: int, message: Any, *, purpose: str = "") -> None:
        """As `request`, for what gets no answer."""
        link = await self._link(node_id, purpose)
        version = choose_version(link.ranges, api_key, None)
        await link.connection.send(api_key, version, self.settings.client_id, message)

    async def refresh(
        self, topics: Iterable[str] | None, *, creates: bool = False
    ) -> MetadataResponse:
        """Ask for the metadata of `topics` (None: all of them) and keep it; one attempt.

        `creates` lets a broker that does so create topics that are missing.
        """
        names = None if topics is None else list(topics)
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        message = MetadataRequest(topics=wanted, allow_auto_topic_creation=creates)
        answer: MetadataResponse = await self.request(ANY_NODE, api.METADATA, message)
        if answer.error_code:
            raise BrokerRefusal(error_code(answer.error_code), subject="metadata")
        self._keep(answer, is_complete=names is None)
        return answer

    async def topic(self, name: str, *, creates: bool = False) -> TopicView:
        """The topic, from memory while that is fresh. One attempt. Raises BrokerRefusal when there
        is none.
        """
        known = self.topics.get(name)
        age_ms = self.clock.monotonic_ms() - self._refreshed_ms.get(name, -1e18)
        if known is not None and age_ms < self.settings.metadata_max_age_ms:
            return known
        answer = await self.refresh([name], creates=creates)
        for row in answer.topics:
            if row.name == name and row.error_code:
                raise BrokerRefusal(error_code(row.error_code), subject=f"topic {name!r}")
        if name not in self.topics:
            raise BrokerRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=f"topic {name!r}")
        return self.topics[name]

    def known_leader(self, topic: str, partition: int) -> int | None:
        """The leader as far as it is known without asking."""
        view = self.topics.get(topic)
        if view is None or topic not in self._refreshed_ms:
            return None
        for row in view.partitions:
            if row.partition == partition:
                return row.leader if row.leader in self.nodes else None
        return None

    async def leader(self, topic: str, partition: int) -> tuple[int, PartitionView]:
        """(node id, partition) of the present leader. One attempt. Raises BrokerRefusal."""
        view = await self.topic(topic)
        for row in view.partitions:
            if row.partition == partition:
                if row.leader in self.nodes:
                    return row.leader, row
                self.forget_topic(topic)
                raise BrokerRefusal(ErrorCode.LEADER_NOT_AVAILABLE, subject=f"{topic}-{partition}")
        self.forget_topic(topic)
        raise BrokerRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=f"{topic}-{partition}")

    def topic_id(self, topic: str) -> bytes:
        """The id last seen, zero when unknown."""
        known = self.topics.get(topic)
        return NO_TOPIC_ID if known is None else known.topic_id

    def forget_topic(self, topic: str) -> None:
        """The metadata of `topic` proved wrong: ask again before the next use."""
        self._refreshed_ms.pop(topic, None)

    async def coordinator(self, group_id: str) -> int:
        """The node that coordinates the group. One attempt. Raises BrokerRefusal."""
        found = (await self.coordinators([group_id]))[group_id]
        if isinstance(found, BrokerRefusal):
            raise found
        return found

    async def coordinators(self, group_ids: Iterable[str]) -> dict[str, int | BrokerRefusal]:
        """Per group the node that coordinates it, or why there is none. One attempt."""
        found: dict[str, int | BrokerRefusal] = {}
        for group_id in group_ids:
            known = self._coordinators.get(group_id)
            if known is not None and known in self.nodes:
                found[group_id] = known
        asked = [group_id for group_id in group_ids if group_id not in found]
        if not asked:
            return found
        version = await self.version(ANY_NODE, api.FIND_COORDINATOR)
        if version >= MANY_COORDINATORS_FROM:
            questions = [FindCoordinatorRequest(coordinator_keys=asked)]
        else:
            questions = [FindCoordinatorRequest(key=group_id) for group_id in asked]
        for question in questions:
            answer = await self.request(ANY_NODE, api.FIND_COORDINATOR, question)
            for row in answer.coordinators or [answer]:
                group_id = row.key if answer.coordinators else question.key
                if row.error_code:
                    code, subject = error_code(row.error_code), f"group {group_id!r}"
                    found[group_id] = BrokerRefusal(code, row.error_message, subject=subject)
                    continue
                self.nodes.setdefault(row.node_id, Node(row.node_id, row.host, row.port))
                self._coordinators[group_id] = found[group_id] = row.node_id
        return found

    def forget_coordinator(self, group_id: str) -> None:
        """The coordinator proved wrong: ask again before the next use."""
        self._coordinators.pop(group_id, None)

    def new_purpose(self, kind: str) -> str:
        """A purpose that nobody else has: its owner's requests wait behind no one else's."""
        self._purpose_count += 1
        return f"{kind}-{self._purpose_count}"

    def release(self, purpose: str) -> None:
        """Close the connections of that purpose."""
        for target in [key for key in self._links if key.purpose == purpose]:
            self._links[target].connection.close()
            self._forget(target)

    async def controller(self) -> int:
        """The node for administration. One attempt."""
        if self.controller_id not in self.nodes:
            await self.refresh([])
        return self.controller_id if self.controller_id in self.nodes else ANY_NODE

    def forget_controller(self) -> None:
        """The controller proved to be another node: ask again before the next use."""
        self.controller_id = ANY_NODE

    def _keep(self, answer: MetadataResponse, *, is_complete: bool) -> None:
        self.nodes = {
            row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in answer.brokers
        }
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        now_ms = self.clock.monotonic_ms()
        if is_complete:
            self.topics.clear()
            self._refreshed_ms.clear()
        for row in answer.topics:
            if row.name is None:
                continue
            if row.error_code:
                self.topics.pop(row.name, None)
                self._refreshed_ms.pop(row.name, None)
                continue
            partitions = [
                PartitionView(
                    each.partition_index,
                    each.leader_id,
                    each.leader_epoch,
                    tuple(each.replica_nodes),
                    tuple(each.isr_nodes),
                    error_code(each.error_code),
                )
                for each in row.partitions
            ]
            partitions.sort()
            self.topics[row.name] = TopicView(
                row.name, row.topic_id, row.is_internal, tuple(partitions)
            )
            self._refreshed_ms[row.name] = now_ms

    async def _link(self, node_id: int, purpose: str) -> _Link:
        if self._is_closed:
            msg = "the client is closed"
            raise ClientError(msg)
        if node_id == ANY_NODE:
            return await self._any_link()
        node = self.nodes.get(node_id)
        if node is None:
            msg = f"broker {node_id} is not known"
            raise ConnectionLost(msg)
        return await self._open(_Target(node_id, node.host, node.port, purpose))

    async def _any_link(self) -> _Link:
        """A live connection to anybody, else to a known broker, else to a bootstrap address."""
        for target, link in self._links.items():
            if link.connection.is_open and target.purpose == "":
                return link
        targets = [_Target(node.node_id, node.host, node.port, "") for node in self.nodes.values()]
        servers = self.settings.bootstrap_servers
        for index in range(len(servers)):
            host, port = parse_address(servers[(self._bootstrap_index + index) % len(servers)])
            targets.append(_Target(ANY_NODE, host, port, ""))
        failure: ClientError | None = None
        for target in targets:
            try:
                return await self._open(target)
            except (ConnectionLost, TimedOut) as error:
                failure = error
        assert failure is not None, "there is at least one bootstrap address"
        raise failure

    async def _open(self, target: _Target) -> _Link:
        lock = self._opening.setdefault(target, asyncio.Lock())
        async with lock:
            link = self._links.get(target)
            if link is not None and link.connection.is_open:
                return link
            self._drop_closed()
            if len(self._links) >= CONNECTIONS_MAX:
                msg = f"the client has {CONNECTIONS_MAX} connections already"
                raise ClientError(msg)
            connection = await connect(
                self._network,
                target.host,
                target.port,
                timeout_ms=self.settings.socket_connection_setup_timeout_ms,
                frame_bytes_max=self.settings.receive_message_max_bytes,
            )
            try:
                ranges = await negotiate(
                    connection,
                    self.settings.client_id,
                    timeout_ms=self.settings.socket_connection_setup_timeout_ms,
                )
            except BaseException:
                connection.close()
                raise
            if self._is_closed:
                connection.close()
                msg = "the client is closed"
                raise ClientError(msg)
            link = self._links[target] = _Link(connection, ranges)
            return link

    def _drop_closed(self) -> None:
        for target in [key for key, link in self._links.items() if not link.connection.is_open]:
            self._forget(target)

    def _forget(self, target: _Target) -> None:
        """Drop a closed connection, and its lock unless somebody is opening the next one."""
        del self._links[target]
        if not self._opening[target].locked():
            del self._opening[target]


def parse_address(text: str) -> tuple[str, int]:
    """ "host:port" or "[v6]:port" as (host, port). Raises Unsupported for anything else."""
    host, separator, port = text.strip().rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        msg = f"not a broker address: {text!r} (expected host:port)"
        raise Unsupported(msg)
    return host.strip("[]"), int(port)
