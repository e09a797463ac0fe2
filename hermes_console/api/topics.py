"""`/api/admin/v1/clusters/{cluster}/topics…`: topics, their settings, partitions and records."""

from __future__ import annotations

from typing import Any, Final

from django.urls import path, reverse
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.rights import Right
from hermes_console.api import topics_shapes as shapes
from hermes_console.api.base import AdminView, idempotent, problems
from hermes_console.api.configs import (
    CHANGE_TROUBLE,
    CHANGES_BODY,
    CLUSTER_TROUBLE,
    DRY_RUN,
    IF_MATCH,
    ConfigView,
)
from hermes_console.clusters import Cluster
from hermes_console.operations import topics
from hermes_console.operations.topics_catalogue import (
    Show,
    read_catalogue,
    readers_by_topic,
    select_topics,
)
from hermes_console.operations.topics_impact import offsets_before_time, plan_cuts, read_readers
from hermes_console.operations.topics_read import (
    Gaps,
    Topic,
    read_numbers,
    read_topic,
    read_topic_settings,
)
from hermes_console.samples.read import latest_cluster

LIST_EXAMPLE: Final = {
    "cluster": "local",
    "topics": [
        {
            "name": "orders",
            "topic_id": "0b6c1f2a9d5e4c7f8a1b2c3d4e5f6071",
            "is_internal": False,
            "partition_count": 6,
            "replication_factor": 1,
            "trouble": "",
            "size_bytes": "73400320",
            "messages_in_per_second": 120.5,
            "retention_ms": "604800000",
            "retention_bytes": "-1",
            "cleanup_policy": "delete",
            "groups": [
                {
                    "name": "settlement",
                    "state": "Stable",
                    "verdict": "falling-behind",
                    "lag": "18230",
                    "lag_seconds": 182.4,
                    "member_count": 1,
                }
            ],
        }
    ],
    "gaps": [],
    "next_cursor": None,
}


class TopicList(AdminView):
    """The topics of a cluster."""

    rights = {"GET": Right.VIEW, "POST": Right.TOPICS_WRITE}

    @extend_schema(
        operation_id="topics_list",
        summary="List topics with size, rate and readers",
        description="In order of name. Numbers that the cluster does not give are null.",
        parameters=[shapes.TopicsQuerySerializer],
        responses={200: shapes.TopicPageSerializer, **problems(*CLUSTER_TROUBLE)},
        examples=[OpenApiExample("One topic", value=LIST_EXAMPLE, response_only=True)],
    )
    def get(self, _request: Request, cluster: str) -> Response:
        found, query = self.cluster(cluster), self.query(shapes.TopicsQuerySerializer)
        snapshot = latest_cluster(found.pk)
        show = Show("" if query["show"] == "own" else query["show"])
        entries = select_topics(
            read_catalogue(found).entries,
            search=query["q"],
            show=show,
            readers=readers_by_topic(snapshot),
        )
        page = self.page(entries, query, lambda one: one, key="topics")
        visible, gaps = page["topics"], Gaps()
        numbers = read_numbers(found, visible, gaps)
        readers = read_readers(found, [one.name for one in visible], snapshot)
        rows = [shapes.row_json(one, numbers[one.name], readers[one.name]) for one in visible]
        return Response({"cluster": found.name, **page, "topics": rows, "gaps": gaps.sentences})

    @extend_schema(
        operation_id="topic_create",
        summary="Create a topic",
        request=shapes.NewTopicSerializer,
        responses={
            200: shapes.CreatedTopicSerializer,
            201: shapes.CreatedTopicSerializer,
            **problems(409, 422, *CLUSTER_TROUBLE),
        },
        examples=[
            OpenApiExample(
                "Six partitions that keep a day",
                value={"name": "orders", "partitions": 6, "configs": {"retention.ms": "86400000"}},
                request_only=True,
            )
        ],
    )
    @idempotent()
    def post(self, _request: Request, cluster: str) -> Response:
        found, body = self.cluster(cluster), self.body(shapes.NewTopicSerializer)
        wanted = {
            "partition_count": shapes.count_or_cluster(body.get("partitions")),
            "replication_factor": shapes.count_or_cluster(body.get("replication_factor")),
            "configs": body["configs"],
        }
        if body["dry_run"]:
            topics.check_new_topic(found, body["name"], **wanted)
            return Response(_created(found, body["name"], "", body.get("partitions"), is_dry=True))
        view = topics.create_topic(self.actor, found, body["name"], **wanted)
        topic_id = view.topic_id.hex()
        return Response(
            _created(found, view.name, topic_id, len(view.partitions), is_dry=False),
            status=201,
            headers={
                "Location": reverse("api:topic", kwargs={"cluster": found.name, "topic": view.name})
            },
        )


class TopicDetail(AdminView):
    """One topic."""

    rights = {"GET": Right.VIEW, "DELETE": Right.TOPICS_WRITE}

    @extend_schema(
        operation_id="topic_detail",
        summary="One topic with its partitions and readers",
        responses={200: shapes.TopicSerializer, **problems(*CLUSTER_TROUBLE)},
    )
    def get(self, _request: Request, cluster: str, topic: str) -> Response:
        found = self.cluster(cluster)
        read = read_topic(found, topic)
        readers = read_readers(found, [read.name], latest_cluster(found.pk))[read.name]
        return Response(shapes.topic_json(found.name, read, readers))

    @extend_schema(
        operation_id="topic_delete",
        summary="Delete a topic and all its records",
        description="Cannot be undone. Look at GET for what is lost and who reads it.",
        parameters=[
            OpenApiParameter(
                "topic_id", str, description="Refused when the topic is no longer this one."
            )
        ],
        request=None,
        responses={204: None, **problems(409, 422, *CLUSTER_TROUBLE)},
    )
    def delete(self, request: Request, cluster: str, topic: str) -> Response:
        found = self.cluster(cluster)
        topics.delete_topic(self.actor, found, topic, topic_id=request.query_params.get("topic_id"))
        return Response(status=204)


class TopicPartitions(AdminView):
    """How many partitions a topic has."""

    rights = {"POST": Right.TOPICS_WRITE}

    @extend_schema(
        operation_id="topic_grow",
        summary="Add partitions",
        description="Keys move: new messages of a key may go to another partition than old ones.",
        request=shapes.GrowSerializer,
        responses={
            200: shapes.CreatedTopicSerializer,
            **problems(409, 422, *CLUSTER_TROUBLE),
        },
    )
    @idempotent()
    def post(self, _request: Request, cluster: str, topic: str) -> Response:
        found, body = self.cluster(cluster), self.body(shapes.GrowSerializer)
        view = topics.grow_topic(
            self.actor, found, topic, body["count"], topic_id=body.get("topic_id")
        )
        return Response(
            _created(found, topic, view.topic_id.hex(), len(view.partitions), is_dry=False)
        )


class TopicConfig(ConfigView):
    """The settings of a topic."""

    rights = {"GET": Right.VIEW, "PATCH": Right.TOPICS_WRITE}

    @extend_schema(
        operation_id="topic_config",
        summary="Settings, where each comes from, what it means",
        responses={200: shapes.ConfigSerializer, **problems(*CLUSTER_TROUBLE)},
    )
    def get(self, _request: Request, cluster: str, topic: str) -> Response:
        found = self.cluster(cluster)
        return self.answer_get(found, topic, lambda: read_topic_settings(found, topic))

    @extend_schema(
        operation_id="topic_configure",
        summary="Change settings",
        description="An object: setting → value; null takes the topic's own value away.",
        parameters=[IF_MATCH, DRY_RUN],
        request=CHANGES_BODY,
        responses={200: shapes.ChangesSerializer, **problems(*CHANGE_TROUBLE)},
        examples=[
            OpenApiExample(
                "Keep a day, and the cluster's segment size",
                value={"retention.ms": "86400000", "segment.bytes": None},
                request_only=True,
            )
        ],
    )
    def patch(self, _request: Request, cluster: str, topic: str) -> Response:
        found = self.cluster(cluster)
        return self.answer_patch(
            found,
            topic,
            lambda: read_topic_settings(found, topic),
            try_out=lambda wanted: topics.check_settings(found, topic, wanted),
            change=lambda wanted, check: topics.change_settings(
                self.actor, found, topic, wanted, etag=None, check=check
            ),
        )


class TopicRecords(AdminView):
    """The records of a topic."""

    rights = {"DELETE": Right.TOPICS_WRITE}

    @extend_schema(
        operation_id="topic_delete_records",
        summary="Delete the oldest records",
        description=(
            "Below an offset per partition, or all that are older than a time. Cannot be undone; "
            "dry_run tells what would go."
        ),
        request=shapes.CutsSerializer,
        responses={
            200: shapes.CutResultSerializer,
            **problems(409, 422, *CLUSTER_TROUBLE),
        },
        examples=[
            OpenApiExample(
                "Two partitions",
                value={"before_offsets": {"0": "1200", "1": "980"}, "dry_run": True},
                request_only=True,
            )
        ],
    )
    def delete(self, _request: Request, cluster: str, topic: str) -> Response:
        found, body = self.cluster(cluster), self.body(shapes.CutsSerializer)
        read = read_topic(found, topic)
        wanted = _wanted_offsets(found, read, body)
        cuts = plan_cuts(read, wanted)
        if body["dry_run"]:
            return Response(shapes.cuts_json(cuts, None))
        answers = topics.delete_records(
            self.actor, found, topic, wanted, topic_id=body.get("topic_id")
        )
        return Response(shapes.cuts_json(cuts, answers))


def _wanted_offsets(cluster: Cluster, topic: Topic, body: dict[str, Any]) -> dict[int, int]:
    offsets, time_ms = body.get("before_offsets"), body.get("before_time_ms")
    if (offsets is None) == (time_ms is None):
        raise ValidationError({"before_offsets": ["Give either this or before_time_ms."]})
    if time_ms is not None:
        return offsets_before_time(cluster, topic, max(0, min(int(time_ms), 2**62)))
    assert offsets is not None, "one of the two was given"
    unknown = [key for key in offsets if not key.isdecimal() or len(key) > 9]
    if unknown:
        raise ValidationError({"before_offsets": [f"{unknown[0][:20]!r} is no partition."]})
    return {int(key): int(value) for key, value in offsets.items()}


def _created(
    cluster: Cluster, name: str, topic_id: str, partition_count: int | None, *, is_dry: bool
) -> dict[str, Any]:
    return {
        "cluster": cluster.name,
        "name": name,
        "topic_id": topic_id,
        "partition_count": partition_count,
        "is_dry_run": is_dry,
    }


_TOPICS = "admin/v1/clusters/<slug:cluster>/topics"
urlpatterns = [
    path(_TOPICS, TopicList.as_view(), name="topics"),
    path(f"{_TOPICS}/<name:topic>", TopicDetail.as_view(), name="topic"),
    path(f"{_TOPICS}/<name:topic>/partitions", TopicPartitions.as_view(), name="topic_partitions"),
    path(f"{_TOPICS}/<name:topic>/config", TopicConfig.as_view(), name="topic_config"),
]
