"""Administration of groups: which there are, who is in them, what they have committed.

Every function repeats itself within the request timeout while failures may pass, and raises
ClientError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.client.assignment import PROTOCOL_TYPE, decode_assignment
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ClientError
from broker.client.offsets import (
    CommittedOffset,
    OffsetAtTime,
    ask_offsets,
    commit_offsets,
    fetch_committed_by_group,
    list_offsets,
)
from broker.client.settle import by_topic, passes_by_itself, settle
from broker.errors import ErrorCode, error_code
from broker.model import TopicPartition
from broker.wire import api
from broker.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from broker.wire.messages.delete_groups import DeleteGroupsRequest
from broker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.messages.list_groups import ListGroupsRequest
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

_MANY_MEMBERS_FROM: Final = 3


class GroupListing(NamedTuple):
    """A group in short. `state` and `group_type` ("classic") are "" for brokers too old."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = ""


class GroupMember(NamedTuple):
    """A member. `assignment` is empty for groups that are not consumers."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A group. `error` says why it could not be described; the rest is empty then."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
    error: BrokerRefusal | None = None


async def list_groups(cluster: Cluster) -> list[GroupListing]:
    """The groups of all brokers, by id."""

    async def attempt() -> list[GroupListing]:
        await cluster.refresh([])
        found: dict[str, GroupListing] = {}
        for node_id in list(cluster.nodes):
            answer = await cluster.request(node_id, api.LIST_GROUPS, ListGroupsRequest())
            if answer.error_code:
                raise BrokerRefusal(error_code(answer.error_code), subject=f"broker {node_id}")
            for row in answer.groups:
                found[row.group_id] = GroupListing(
                    row.group_id, row.protocol_type, row.group_state, row.group_type
                )
        return sorted(found.values())

    return await cluster.call(attempt, what="list groups")


async def describe_groups(cluster: Cluster, group_ids: Sequence[str]) -> list[GroupDescription]:
    """Each group, in the order asked; one that does not exist has state "Dead"."""

    async def attempt() -> list[GroupDescription]:
        described: dict[str, GroupDescription] = {}
        by_node: dict[int, list[str]] = {}
        for group_id, node in (await cluster.coordinators(group_ids)).items():
            if isinstance(node, BrokerRefusal):
                described[group_id] = GroupDescription(group_id, "", "", "", (), node)
            else:
                by_node.setdefault(node, []).append(group_id)
        for node, ids in by_node.items():
            answer = await cluster.request(
                node, api.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=ids)
            )
            for row in answer.groups:
                described[row.group_id] = _read_group(cluster, row)
            others = [each for each in ids if _is_of_other_protocol(described[each])]
            for described_again in await _describe_consumer_groups(cluster, node, others):
                described[described_again.group_id] = described_again
        return [described[group_id] for group_id in group_ids]

    return await cluster.call(attempt, what="describe groups")


def _read_group(cluster: Cluster, row: DescribedGroup) -> GroupDescription:
    code = error_code(row.error_code)
    if code is ErrorCode.GROUP_ID_NOT_FOUND and "not a classic group" not in (
        row.error_message or ""
    ):
        return GroupDescription(row.group_id, "Dead", "", "", ())
    if code is not ErrorCode.NONE:
        cluster.forget_coordinator(row.group_id)
        error = BrokerRefusal(code, row.error_message, subject=f"group {row.group_id!r}")
        return GroupDescription(row.group_id, "", "", "", (), error)
    return GroupDescription(
        row.group_id,
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        tuple(_read_member(each, row.protocol_type) for each in row.members),
    )


def _is_of_other_protocol(group: GroupDescription) -> bool:
    """Whether it exists, but members take part by heartbeats that the broker answers (KIP-848)."""
    return group.error is not None and group.error.code is ErrorCode.GROUP_ID_NOT_FOUND


async def _describe_consumer_groups(
    cluster: Cluster, node: int, group_ids: Sequence[str]
) -> list[GroupDescription]:
    """Those of the groups that are of the consumer protocol. One attempt."""
    if not group_ids or api.CONSUMER_GROUP_DESCRIBE not in await cluster.api_ranges(node):
        return []
    request = ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    answer: ConsumerGroupDescribeResponse = await cluster.request(
        node, api.CONSUMER_GROUP_DESCRIBE, request
    )
    return [
        GroupDescription(
            row.group_id,
            row.group_state,
            PROTOCOL_TYPE,
            row.assignor_name,
            tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    tuple(
                        TopicPartition(topic.topic_name, partition)
                        for topic in member.assignment.topic_partitions
                        for partition in topic.partitions
                    ),
                )
                for member in row.members
            ),
        )
        for row in answer.groups
        if not row.error_code
    ]


def _read_member(row: DescribedGroupMember, protocol_type: str) -> GroupMember:
    assignment: tuple[TopicPartition, ...] = ()
    if protocol_type == PROTOCOL_TYPE:
        try:
            assignment = decode_assignment(row.member_assignment)
        except ClientError:
            assignment = ()  # written by a client that has its own idea of it
    return GroupMember(
        row.member_id, row.group_instance_id, row.client_id, row.client_host, assignment
    )


async def delete_groups(cluster: Cluster, group_ids: Sequence[str]) -> None:
    """Forget groups and their commits. Raises BrokerRefusal for the first that is refused, others
    may be gone.
    """
    for refusal in (await delete_groups_each(cluster, group_ids)).values():
        if refusal is not None:
            raise refusal


async def delete_groups_each(
    cluster: Cluster, group_ids: Sequence[str]
) -> dict[str, BrokerRefusal | None]:
    """Per group None when it and its commits are gone, else why not (NON_EMPTY_GROUP: it has
    members).
    """

    async def ask(asked: Sequence[str]) -> dict[str, BrokerRefusal | None]:
        outcome: dict[str, BrokerRefusal | None] = {}
        for node, ids in (await _by_coordinator(cluster, asked, outcome)).items():
            request = DeleteGroupsRequest(groups_names=ids)
            answer = await cluster.request(node, api.DELETE_GROUPS, request)
            for row in answer.results:
                outcome[row.group_id] = _refusal(cluster, row.group_id, row.error_code)
        return outcome

    return await settle(cluster, group_ids, ask, what="delete groups")


async def delete_committed_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, BrokerRefusal | None]:
    """Forget a group's commits for these partitions. Per partition None when there is none now,
    else why not (GROUP_SUBSCRIBED_TO_TOPIC: members read that topic).

    Raises BrokerRefusal when the group as a whole is refused, e.g. GROUP_ID_NOT_FOUND.
    """
    wanted = list(dict.fromkeys(partitions))
    if not wanted:
        return {}
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in by_topic(wanted).items()
        ],
    )

    async def attempt() -> dict[TopicPartition, BrokerRefusal | None]:
        node = await cluster.coordinator(group_id)
        answer = await cluster.request(node, api.OFFSET_DELETE, request)
        refusal = _refusal(cluster, group_id, answer.error_code)
        if refusal is not None:
            raise refusal
        return {
            TopicPartition(topic.name, row.partition_index): _refusal(
                cluster, group_id, row.error_code, f"{topic.name}-{row.partition_index}"
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    return await cluster.call(attempt, what="delete committed offsets")


async def remove_group_members(
    cluster: Cluster,
    group_id: str,
    members: Sequence[GroupMember] | None = None,
    *,
    reason: str = "removed by an administrator",
) -> dict[str, BrokerRefusal | None]:
    """Take members (None: all that there are) out of their group; one that runs joins again. Per
    member id None when it is gone, else why not.

    Raises BrokerRefusal when the group as a whole is refused.
    """

    async def attempt() -> dict[str, BrokerRefusal | None]:
        gone = members
        if gone is None:
            (described,) = await describe_groups(cluster, [group_id])
            if described.error is not None:
                raise described.error
            gone = described.members
        if not gone:
            return {}
        node = await cluster.coordinator(group_id)
        if await cluster.version(node, api.LEAVE_GROUP) < _MANY_MEMBERS_FROM:
            return {
                member.member_id: await _leave(cluster, node, group_id, member) for member in gone
            }
        return await _leave_together(cluster, node, group_id, gone, reason)

    return await cluster.call(attempt, what="remove members")


async def _leave_together(
    cluster: Cluster, node: int, group_id: str, members: Sequence[GroupMember], reason: str
) -> dict[str, BrokerRefusal | None]:
    # A static member is named by its instance: its member id may be another by now.
    rows = [
        MemberIdentity(
            member_id=member.member_id if member.instance_id is None else "",
            group_instance_id=member.instance_id,
            reason=reason,
        )
        for member in members
    ]
    request = LeaveGroupRequest(group_id=group_id, members=rows)
    answer = await cluster.request(node, api.LEAVE_GROUP, request)
    refusal = _refusal(cluster, group_id, answer.error_code)
    if refusal is not None:
        raise refusal
    ids = {member.instance_id: member.member_id for member in members if member.instance_id}
    return {
        row.member_id or ids.get(row.group_instance_id or "", ""): _refusal(
            cluster, group_id, row.error_code, f"member {row.member_id!r}"
        )
        for row in answer.members
    }


async def _leave(
    cluster: Cluster, node: int, group_id: str, member: GroupMember
) -> BrokerRefusal | None:
    request = LeaveGroupRequest(group_id=group_id, member_id=member.member_id)
    answer = await cluster.request(node, api.LEAVE_GROUP, request)
    return _refusal(cluster, group_id, answer.error_code, f"member {member.member_id!r}")


async def _by_coordinator(
    cluster: Cluster, group_ids: Sequence[str], refused: dict[str, BrokerRefusal | None]
) -> dict[int, list[str]]:
    """Node -> groups; those without a coordinator are added to `refused`. One attempt."""
    by_node: dict[int, list[str]] = {}
    for group_id, node in (await cluster.coordinators(group_ids)).items():
        if isinstance(node, BrokerRefusal):
            refused[group_id] = node
        else:
            by_node.setdefault(node, []).append(group_id)
    return by_node


def _refusal(cluster: Cluster, group_id: str, code: int, subject: str = "") -> BrokerRefusal | None:
    if not code:
        return None
    refusal = BrokerRefusal(error_code(code), subject=subject or f"group {group_id!r}")
    if passes_by_itself(refusal):
        cluster.forget_coordinator(group_id)
    return refusal


async def committed_offsets(
    cluster: Cluster, group_ids: Iterable[str]
) -> dict[str, dict[TopicPartition, CommittedOffset] | BrokerRefusal]:
    """Per group all its commits, or why they could not be read."""
    groups = dict.fromkeys(group_ids)
    return await cluster.call(
        lambda: fetch_committed_by_group(cluster, groups), what="read commits"
    )


async def set_committed_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Store offsets for a group without members. Raises BrokerRefusal (UNKNOWN_MEMBER_ID when it
    has some).
    """
    await cluster.call(lambda: commit_offsets(cluster, group_id, offsets), what="store offsets")


async def offsets_at(
    cluster: Cluster, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAtTime]:
    """Per partition the offset at a timestamp, or at EARLIEST, LATEST, NEWEST_TIMESTAMP."""
    return await cluster.call(lambda: list_offsets(cluster, wanted), what="find offsets")


async def offsets_where_known(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = 0,
    is_whole_log: bool = False,
) -> dict[TopicPartition, OffsetAtTime]:
    """As `offsets_at`; partitions that are refused (deleted meanwhile, without a leader) are left
    out. `is_whole_log`: also what a delivery window hides.
    """
    found, _refused = await cluster.call(
        lambda: ask_offsets(
            cluster, wanted, isolation_level=isolation_level, is_whole_log=is_whole_log
        ),
        what="find offsets",
    )
    return found
