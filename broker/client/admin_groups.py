"""Administration of groups: which there are, who is in them, what they have committed.

Every function repeats itself within the request timeout while failures may pass, and raises
ClientError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

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
from broker.errors import ErrorCode, error_code
from broker.model import TopicPartition
from broker.wire import api
from broker.wire.messages.delete_groups import DeleteGroupsRequest
from broker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from broker.wire.messages.list_groups import ListGroupsRequest


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
        return [described[group_id] for group_id in group_ids]

    return await cluster.call(attempt, what="describe groups")


def _read_group(cluster: Cluster, row: DescribedGroup) -> GroupDescription:
    code = error_code(row.error_code)
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
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
    """Forget groups and their commits. Raises BrokerRefusal for the first that is refused."""

    async def attempt() -> None:
        for group_id in group_ids:
            node = await cluster.coordinator(group_id)
            answer = await cluster.request(
                node, api.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group_id])
            )
            for row in answer.results:
                if row.error_code:
                    cluster.forget_coordinator(group_id)
                    code = error_code(row.error_code)
                    raise BrokerRefusal(code, subject=f"group {row.group_id!r}")

    await cluster.call(attempt, what="delete groups")


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
    cluster: Cluster, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAtTime]:
    """As `offsets_at`; partitions that are refused (deleted meanwhile, without a leader) are left
    out.
    """
    found, _refused = await cluster.call(lambda: ask_offsets(cluster, wanted), what="find offsets")
    return found
