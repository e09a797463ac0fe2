"""A shard of the group coordinator in the test's own time: requests in, answers and log entries
out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from broker.coordinators.group.effects import Append, Caller, Effect, Moment, Reply
from broker.coordinators.group.join import member_id_for
from broker.coordinators.group.limits import GroupLimits
from broker.coordinators.group.records import LogPair, to_log
from broker.coordinators.group.replay import Replay
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "group"
DAY_MS = 24 * 3600 * 1000
NEWEST = 9
ORDERS_ID = b"orders----------"
TopicTable = dict[str, tuple[bytes, int]]


class Answer:
    """Where one response goes; a second one is an error of the coordinator."""

    def __init__(self) -> None:
        self.response: Any = None

    def __call__(self, response: Any) -> None:
        assert self.response is None, f"a request was answered twice: {self.response} {response}"
        self.response = response

    @property
    def is_parked(self) -> bool:
        return self.response is None

    @property
    def code(self) -> ErrorCode:
        assert self.response is not None, "the request is still parked"
        if isinstance(self.response, ErrorCode):
            return self.response
        return ErrorCode(self.response.error_code)


def subscription(*topics: str, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    """A consumer's metadata: version 1, topics, then what the coordinator does not read."""
    parts = [struct.pack(">hi", 1, len(topics))]
    for topic in topics:
        parts += [struct.pack(">h", len(topic.encode())), topic.encode()]
    return b"".join(parts) + tail


RANGE = (("range", subscription("orders")),)


class World:
    """One shard, its log, its clock and the topics that exist."""

    def __init__(self, **limits: int) -> None:
        self.limits = GroupLimits(**{"initial_rebalance_delay_ms": 0, **limits})
        self.shard = GroupShard()
        self.log: list[LogPair] = []
        self.monotonic_ms = 1_000_000.0
        self.wall_ms = 1_700_000_000_000
        self.topics: TopicTable = {"orders": (ORDERS_ID, 12)}
        self.may_create_group = True
        self._ids = 0

    def moment(self) -> Moment:
        return Moment(self.monotonic_ms, self.wall_ms, self.limits, self.may_create_group)

    def execute(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.log.append(to_log(effect.record))
            else:
                assert isinstance(effect, Reply)
                effect.reply_to(effect.response)

    def advance(self, duration_ms: float) -> None:
        """Let time pass; everything that runs out meanwhile does so at its moment."""
        target = self.monotonic_ms + duration_ms
        while (deadline := self.shard.next_deadline_ms()) is not None and deadline <= target:
            self._set_time(max(deadline, self.monotonic_ms))
            self.execute(self.shard.on_deadline(self.moment(), 10))
        self._set_time(target)

    def _set_time(self, monotonic_ms: float) -> None:
        self.wall_ms += int(monotonic_ms - self.monotonic_ms)
        self.monotonic_ms = monotonic_ms

    def restart(self) -> None:
        """A new incarnation that knows only the log."""
        replay = Replay()
        for key, value in self.log:
            replay.add(key, value)
        for _ in replay.records_applied():
            pass
        replay.shard.restore(self.monotonic_ms)
        self.shard = replay.shard

    def find_topic(self, name: str) -> tuple[bytes, int] | None:
        return self.topics.get(name)

    # requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        version: int = NEWEST,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client: str = "client",
    ) -> Answer:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
        )
        answer = Answer()
        self._ids += 1
        new_id = member_id or member_id_for(client, instance, self._ids.to_bytes(16, "big"))
        caller = Caller(client, "/127.0.0.1", version, answer)
        self.execute(self.shard.on_join(request, caller, new_id, self.moment()))
        return answer

    def enter(self, **options: Any) -> tuple[str, Answer]:
        """Join as a client does: with the id that the first answer gives, when it gives one. (id,
        join).
        """
        answer = self.join(**options)
        if answer.response is not None and answer.code is ErrorCode.MEMBER_ID_REQUIRED:
            member_id = answer.response.member_id
            return member_id, self.join(member_id, **options)
        if answer.response is not None:
            return answer.response.member_id, answer
        group = self.shard.groups[options.get("group", GROUP)]
        return next(m.member_id for m in group.members.values() if m.parked_join is answer), answer

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Answer:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=value)
                for key, value in (assignments or {}).items()
            ],
        )
        answer = Answer()
        caller = Caller("client", "/127.0.0.1", 5, answer)
        self.execute(self.shard.on_sync(request, caller, self.moment()))
        return answer

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        answer = Answer()
        caller = Caller("client", "/127.0.0.1", 4, answer)
        self.execute(self.shard.on_heartbeat(request, caller, self.moment()))
        return answer.code

    def leave(
        self, *members: tuple[str, str | None], group: str = GROUP, version: int = 5
    ) -> Answer:
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=members[0][0])
        else:
            identities = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in members]
            request = LeaveGroupRequest(group_id=group, members=identities)
        answer = Answer()
        caller = Caller("client", "/127.0.0.1", version, answer)
        self.execute(self.shard.on_leave(request, caller, self.moment()))
        return answer

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        group: str = GROUP,
        topic: str = "orders",
        partition: int = 0,
        instance: str | None = None,
        metadata: str | None = "",
    ) -> ErrorCode:
        wanted = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[wanted])],
        )
        answer = Answer()
        caller = Caller("client", "/127.0.0.1", 9, answer)
        self.execute(self.shard.on_commit(request, self.find_topic, caller, self.moment()))
        return ErrorCode(answer.response.topics[0].partitions[0].error_code)

    def committed(
        self, *, group: str = GROUP, topic: str = "orders", partition: int = 0
    ) -> int | None:
        fetched = self.shard.fetch_offsets(group, [(topic, [partition])], self.find_topic)
        commit = fetched[0][1][0].commit
        return None if commit is None else commit.offset

    def expire(self, group: str = GROUP) -> None:
        """The periodic look at one group."""
        self.execute(self.shard.on_expiry(group, self.find_topic, self.moment()))

    # shortcuts

    def stable_group(self, count: int = 2, **options: Any) -> list[str]:
        """A Stable group of `count` members that each got their own id as assignment; the leader
        first.
        """
        members = [self.enter(**options)[0]]
        self.settle(members, options.get("group", GROUP))
        while len(members) < count:
            members.append(self.enter(**options)[0])
            self.settle(members, options.get("group", GROUP))
        return members

    def settle(self, members: list[str], group_id: str = GROUP) -> None:
        """Bring everybody named into one Stable generation."""
        group = self.shard.groups[group_id]
        answers = {}
        for member_id in members:
            member = group.members[member_id]
            if member.parked_join is None and group.state == "PreparingRebalance":
                answers[member_id] = self.join(
                    member_id,
                    group=group_id,
                    instance=member.instance_id,
                    protocols=member.protocols,
                    session_ms=member.session_timeout_ms,
                    rebalance_ms=member.rebalance_timeout_ms,
                )
        for member_id in sorted(members, key=lambda each: each == group.leader):
            assignments = {each: each.encode() for each in members}
            is_leader = member_id == group.leader
            answer = self.sync(
                member_id, group.generation, assignments if is_leader else None, group=group_id
            )
            assert is_leader or answer.is_parked
        assert group.state == "Stable", group.state

    @property
    def group(self) -> Any:
        return self.shard.groups[GROUP]
