"""`GET /api/admin/v1/groups`: the groups of a cluster as last sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.rights import Right
from hermes_console.api.base import AdminView, problems
from hermes_console.api.cursor import slice_after
from hermes_console.clusters import Cluster, default_cluster
from hermes_console.samples.read import latest_cluster
from hermes_console.samples.snapshot import ClusterSnapshot, GroupSummary, Verdict

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500
NAME_ONE: Final = "This token is not for the default cluster: name one in cluster."
VERDICTS: Final = [verdict.value for verdict in Verdict]


class GroupsQuerySerializer(serializers.Serializer[Any]):
    """Parameters of a cluster's list."""

    q = serializers.CharField(required=False, max_length=255, help_text="Part of the group's name.")
    verdict = serializers.ChoiceField(
        VERDICTS, required=False, help_text="Only groups with this verdict."
    )
    limit = serializers.IntegerField(
        required=False, min_value=1, max_value=LIMIT_MAX, default=LIMIT_DEFAULT
    )
    cursor = serializers.CharField(
        required=False, max_length=1024, help_text="next_cursor of the page before."
    )


class AnyClusterQuerySerializer(GroupsQuerySerializer):
    """Parameters of the list without a cluster in its address."""

    cluster = serializers.CharField(
        required=False, help_text="Name of the cluster; the default one if absent."
    )


class GroupSerializer(serializers.Serializer[Any]):
    """One consumer group. A null number is unknown, never 0."""

    name = serializers.CharField()
    state = serializers.CharField(
        help_text="As Kafka names it: Stable, Empty, PreparingRebalance, …"
    )
    protocol = serializers.CharField(help_text="The assignor, for example range.")
    member_count = serializers.IntegerField()
    partition_count = serializers.IntegerField(help_text="Partitions with a commit or an owner.")
    unknown_count = serializers.IntegerField(
        help_text="Of these, partitions without a commit: their lag is unknown."
    )
    topics = serializers.ListField(child=serializers.CharField())
    lag = serializers.CharField(
        allow_null=True, help_text="Messages that wait, a 64-bit integer as text."
    )
    lag_seconds = serializers.FloatField(
        allow_null=True, help_text="Age of the oldest unread message."
    )
    lag_seconds_is_at_least = serializers.BooleanField(
        help_text="lag_seconds is only a lower bound."
    )
    produced_per_second = serializers.FloatField(allow_null=True)
    consumed_per_second = serializers.FloatField(allow_null=True)
    slope_per_second = serializers.FloatField(
        allow_null=True, help_text="Growth of the lag, below 0: it shrinks."
    )
    drain_seconds = serializers.FloatField(
        allow_null=True, help_text="Until nothing waits at this pace; null: never or unknown."
    )
    verdict = serializers.ChoiceField(VERDICTS)
    reason = serializers.CharField(help_text="Why, in one sentence.")


class GroupPageSerializer(serializers.Serializer[Any]):
    """A page of groups, in order of name, all from the same sample."""

    cluster = serializers.CharField()
    sequence = serializers.CharField(help_text="Number of the sample, a 64-bit integer as text.")
    sampled_at_ms = serializers.CharField(
        help_text="When the cluster last answered, milliseconds since 1970 UTC as text."
    )
    trouble = serializers.CharField(
        allow_blank=True, help_text="Why there is nothing newer; empty when all is well."
    )
    groups = GroupSerializer(many=True)
    next_cursor = serializers.CharField(
        allow_null=True, help_text="For the next page; null on the last one."
    )


EXAMPLE: Final = {
    "cluster": "local",
    "sequence": "1042",
    "sampled_at_ms": "1764424800000",
    "trouble": "",
    "groups": [
        {
            "name": "settlement",
            "state": "Stable",
            "protocol": "range",
            "member_count": 1,
            "partition_count": 6,
            "unknown_count": 0,
            "topics": ["orders"],
            "lag": "18230",
            "lag_seconds": 182.4,
            "lag_seconds_is_at_least": False,
            "produced_per_second": 100.0,
            "consumed_per_second": 40.0,
            "slope_per_second": 60.0,
            "drain_seconds": None,
            "verdict": "falling-behind",
            "reason": "Reads 40.0/s while 100/s arrive: the lag grows by 60.0/s.",
        }
    ],
    "next_cursor": None,
}


class GroupList(AdminView):
    """The groups list."""

    rights = {"GET": Right.VIEW}

    @extend_schema(
        operation_id="groups_list",
        summary="List consumer groups with their lag",
        description=(
            "Groups of one cluster as last sampled (about every second), in order of name. "
            "Pass next_cursor as cursor for the next page; a page may come from a newer sample "
            "than the one before."
        ),
        parameters=[AnyClusterQuerySerializer],
        responses={200: GroupPageSerializer, **problems(404)},
        examples=[
            OpenApiExample(
                "A group that falls behind", value=EXAMPLE, status_codes=["200"], response_only=True
            )
        ],
    )
    def get(self, _request: Request) -> Response:
        query = self.query(AnyClusterQuerySerializer)
        name = query.get("cluster")
        cluster = self.cluster(name) if name else default_cluster()
        if cluster is None or not self.actor.reaches(cluster):
            raise NotFound("There is no cluster yet." if cluster is None else NAME_ONE)
        return Response(group_page(cluster, query))


def group_page(cluster: Cluster, query: Mapping[str, Any]) -> dict[str, Any]:
    """As GroupPageSerializer describes it. Raises NotFound before the first sample,
    ValidationError.
    """
    snapshot = latest_cluster(cluster.pk)
    if snapshot is None:
        raise NotFound("The cluster was not sampled yet; try again in a second.")
    groups = select(snapshot, query.get("q", ""), query.get("verdict"))
    try:
        page, next_cursor = slice_after(groups, query.get("cursor"), query["limit"])
    except ValueError as error:
        raise ValidationError({"cursor": ["Use next_cursor of the page before."]}) from error
    return {
        "cluster": cluster.name,
        "sequence": str(snapshot.sequence),
        "sampled_at_ms": str(snapshot.reached_at_ms),
        "trouble": snapshot.trouble,
        "groups": [group_json(group) for group in page],
        "next_cursor": next_cursor,
    }


def select(snapshot: ClusterSnapshot, search: str, verdict: str | None) -> list[GroupSummary]:
    """The groups that fit, in order of name."""
    return sorted(
        (
            group
            for group in snapshot.groups
            if search.casefold() in group.name.casefold()
            and (verdict is None or group.verdict.value == verdict)
        ),
        key=lambda group: group.name,
    )


def group_json(group: GroupSummary) -> dict[str, Any]:
    """A group as GroupSerializer describes it."""
    return {
        "name": group.name,
        "state": group.state,
        "protocol": group.protocol,
        "member_count": group.member_count,
        "partition_count": group.partition_count,
        "unknown_count": group.unknown_count,
        "topics": list(group.topics),
        "lag": None if group.lag is None else str(group.lag),
        "lag_seconds": group.lag_seconds,
        "lag_seconds_is_at_least": group.is_at_least,
        "produced_per_second": group.produced_per_s,
        "consumed_per_second": group.consumed_per_s,
        "slope_per_second": group.slope_per_s,
        "drain_seconds": group.drain_seconds,
        "verdict": group.verdict.value,
        "reason": group.reason,
    }
