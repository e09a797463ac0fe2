"""A member of a classic group: join, sync, heartbeat, leave; the leader's share of the work
included.

Not here: reading, committing, when to do what (consumer). Each method is one attempt and tells by
its exception what has to follow: `is_lost(error)` means that the member's generation is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.client.assignment import (
    PROTOCOL_TYPE,
    RANGE,
    ConsumerProtocolSubscription,
    MemberSubscription,
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ClientError
from broker.errors import ErrorCode, error_code
from broker.model import TopicPartition
from broker.wire import api
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NO_GENERATION: Final = -1
_COORDINATOR_GONE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
_REJOIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)
_MANY_MEMBERS_FROM: Final = 3


def is_lost(error: ClientError) -> bool:
    """Whether the group went on without this member: what it held is not its own any more."""
    return isinstance(error, BrokerRefusal) and error.code in (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
    )


class Membership:
    """One member of `group_id`; `instance_id` makes it a static one."""

    def __init__(self, cluster: Cluster, group_id: str, *, instance_id: str | None = None) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = NO_GENERATION
        self.purpose = cluster.new_purpose("group")
        self._cluster = cluster
        self._settings = cluster.settings
        self._assigned_counts: dict[str, int] | None = None

    @property
    def is_member(self) -> bool:
        return self.generation != NO_GENERATION

    async def join(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        """What this member is to read in the new generation. Raises ClientError; retriable ones ask
        for a new join.
        """
        self.generation = NO_GENERATION
        self._assigned_counts = None
        try:
            joined = await self._join(topics)
            self.member_id = joined.member_id
            assignment = await self._sync(joined, topics)
        except BrokerRefusal as error:
            self._note(error)
            if error.code in _REJOIN:
                error.is_retriable = True
            raise
        except ClientError:
            self._cluster.forget_coordinator(self.group_id)
            raise
        self.generation = joined.generation_id
        return assignment

    async def heartbeat(self) -> None:
        """Say that this member lives. Raises BrokerRefusal(REBALANCE_IN_PROGRESS) when it has to
        rejoin.
        """
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        answer = await self._ask(api.HEARTBEAT, request)
        if request.generation_id == self.generation:  # else the answer is about the past
            self._check(answer.error_code)

    async def leave(self) -> None:
        """Go at once; a static member stays known to the group until its session ends."""
        member_id, self.member_id = self.member_id, ""
        self.generation = NO_GENERATION
        if not member_id or self.instance_id is not None:
            return
        node = await self._cluster.coordinator(self.group_id)
        version = await self._cluster.version(node, api.LEAVE_GROUP, purpose=self.purpose)
        if version >= _MANY_MEMBERS_FROM:
            members = [MemberIdentity(member_id=member_id)]
            request = LeaveGroupRequest(group_id=self.group_id, members=members)
        else:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=member_id)
        await self._ask(api.LEAVE_GROUP, request)

    def forget(self) -> None:
        """Join as a new member next time."""
        self.member_id = ""
        self.generation = NO_GENERATION

    def lose(self) -> None:
        """The generation is over; the member id may still be good."""
        self.generation = NO_GENERATION

    def has_outgrown(self) -> bool:
        """Whether this member led the assignment and the topics have other partitions by now."""
        return self._assigned_counts is not None and self._assigned_counts != {
            topic: len(self._cluster.topics[topic].partitions)
            for topic in self._assigned_counts
            if topic in self._cluster.topics
        }

    def close(self) -> None:
        """Close the connection to the coordinator."""
        self._cluster.release(self.purpose)

    async def _join(self, topics: Sequence[str]) -> JoinGroupResponse:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=sorted(topics)))
        rebalance_ms = self._settings.max_poll_interval_ms
        while True:
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=self._settings.session_timeout_ms,
                rebalance_timeout_ms=rebalance_ms,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=subscription)],
            )
            answer: JoinGroupResponse = await self._ask(
                api.JOIN_GROUP, request, timeout_ms=rebalance_ms
            )
            is_asked_to_return = answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            if is_asked_to_return and not self.member_id and answer.member_id:
                self.member_id = answer.member_id
                continue
            self._check(answer.error_code)
            return answer

    async def _sync(
        self, joined: JoinGroupResponse, topics: Sequence[str]
    ) -> tuple[TopicPartition, ...]:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name or RANGE,
        )
        if joined.leader == joined.member_id and not joined.skip_assignment:
            request.assignments = await self._assign(joined)
        answer = await self._ask(
            api.SYNC_GROUP, request, timeout_ms=self._settings.max_poll_interval_ms
        )
        self._check(answer.error_code)
        return decode_assignment(answer.assignment)

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = [
            MemberSubscription(
                row.member_id,
                row.group_instance_id,
                tuple(decode_subscription(row.metadata).topics),
            )
            for row in joined.members
        ]
        wanted = {topic for member in members for topic in member.topics}
        await self._cluster.refresh(sorted(wanted), creates=True)
        counts = {
            topic: len(self._cluster.topics[topic].partitions)
            for topic in wanted
            if topic in self._cluster.topics
        }
        self._assigned_counts = counts
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(assigned))
            for member_id, assigned in assign_range(members, counts).items()
        ]

    async def _ask(self, api_key: int, request: object, *, timeout_ms: int = 0) -> Any:
        node = await self._cluster.coordinator(self.group_id)
        return await self._cluster.request(
            node, api_key, request, purpose=self.purpose, timeout_ms=timeout_ms
        )

    def _check(self, code: int) -> None:
        if code:
            error = BrokerRefusal(error_code(code), subject=f"group {self.group_id!r}")
            self._note(error)
            raise error

    def _note(self, error: BrokerRefusal) -> None:
        if error.code in _COORDINATOR_GONE:
            self._cluster.forget_coordinator(self.group_id)
        elif error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        elif is_lost(error):
            self.lose()
