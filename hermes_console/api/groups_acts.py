"""`/api/admin/v1/clusters/{cluster}/groups…`: groups, their offsets, and what can be done to them.

Reads of the list and the detail come from the last sample; offsets and acts ask the cluster itself.
"""

from __future__ import annotations

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.rights import Right
from hermes_console.api import groups_shapes as shapes
from hermes_console.api.base import AdminView, idempotent, if_match_header, problems
from hermes_console.api.groups import (
    EXAMPLE,
    GroupPageSerializer,
    GroupsQuerySerializer,
    group_json,
    group_page,
)
from hermes_console.operations import groups
from hermes_console.operations.groups_plan import BadTarget, Target, read_moves, read_target
from hermes_console.operations.groups_plan import Move as GroupMove
from hermes_console.operations.groups_read import (
    GroupNow,
    no_such_group,
    preview_create,
    preview_reset,
    read_group,
)
from hermes_console.samples.read import latest_group
from hermes_console.undo.models import OffsetChange

IF_MATCH = if_match_header(of="GET …/offsets")
RESET_EXAMPLE = {
    "to": {"place": "time", "value": "2026-03-01T14:00:00Z"},
    "topics": [{"topic": "orders", "partitions": [0, 1]}],
    "dry_run": True,
}
PREVIEW_EXAMPLE = {
    "group": "settlement",
    "is_dry_run": True,
    "why_refused": "",
    "token": "9f2c0d6f6c1d4f9b8f1d2f3a4b5c6d7e",
    "change": None,
    "moves": [
        {
            "topic": "orders",
            "partition": 0,
            "before": "18230",
            "after": "12000",
            "delta": "-6230",
            "skipped_count": "0",
            "read_again_count": "6230",
            "is_estimated": False,
            "note": "",
        }
    ],
}


class ClusterGroups(AdminView):
    """The groups of a cluster."""

    rights = {"GET": Right.VIEW, "POST": Right.GROUPS_WRITE}

    @extend_schema(
        operation_id="cluster_groups_list",
        summary="List the groups of a cluster",
        description="As last sampled (about every second), in order of name.",
        parameters=[GroupsQuerySerializer],
        responses={200: GroupPageSerializer, **problems(404)},
        examples=[OpenApiExample("One group", value=EXAMPLE, response_only=True)],
    )
    def get(self, _request: Request, cluster: str) -> Response:
        query = self.query(GroupsQuerySerializer)
        return Response(group_page(self.cluster(cluster), query))

    @extend_schema(
        operation_id="group_create",
        summary="Create a group",
        description=(
            "Commits offsets for a group that does not exist yet, so that its first member begins "
            "there."
        ),
        request=shapes.CreateSerializer,
        responses={
            200: shapes.PreviewSerializer,
            201: shapes.PreviewSerializer,
            **problems(404, 409, 422, 502, 503, 504),
        },
    )
    @idempotent()
    def post(self, _request: Request, cluster: str) -> Response:
        found, body = self.cluster(cluster), self.body(shapes.CreateSerializer)
        selection, target = shapes.selection_of(body["topics"]), _target(body["to"])
        name = body["name"]
        if body["dry_run"]:
            preview = preview_create(found, name, selection, target)
            return Response(
                shapes.preview_json(
                    name, preview.moves, preview=preview, why_refused=preview.why_refused
                )
            )
        change = groups.create_group(self.actor, found, name, selection, target)
        return Response(shapes.preview_json(name, _moves(change), change=change), status=201)


class ClusterGroup(AdminView):
    """One group."""

    rights = {"GET": Right.VIEW, "DELETE": Right.GROUPS_WRITE}

    @extend_schema(
        operation_id="group_detail",
        summary="One group with partitions, members and what blocks it",
        description="As last sampled. " + shapes.NAME_HELP,
        responses={200: shapes.GroupDetailSerializer, **problems(404)},
    )
    def get(self, _request: Request, cluster: str, group: str) -> Response:
        detail = latest_group(self.cluster(cluster).pk, group)
        if detail is None:
            raise NotFound(no_such_group(group).detail)
        return Response(shapes.detail_json(group_json(detail.summary), detail))

    @extend_schema(
        operation_id="group_delete",
        summary="Delete a group and its offsets",
        description=(
            "Refused while members are connected. Its offsets can be committed again by the undo "
            "of the change that the answer names."
        ),
        parameters=[IF_MATCH],
        request=None,
        responses={200: shapes.PreviewSerializer, **problems(404, 409, 412, 428, 502, 503, 504)},
    )
    def delete(self, _request: Request, cluster: str, group: str) -> Response:
        found = self.cluster(cluster)
        groups.check_may_change(self.actor, found, group)
        self.if_match(shapes.offsets_json(_existing(found, group)))
        change = groups.delete_group(self.actor, found, group, group)
        return Response(shapes.preview_json(group, _moves(change), change=change))


class GroupOffsets(AdminView):
    """A group's commits."""

    rights = {"GET": Right.VIEW}

    @extend_schema(
        operation_id="group_offsets",
        summary="A group's committed offsets now",
        description="Asked of the cluster. The ETag is for If-Match of what changes them.",
        responses={200: shapes.OffsetsSerializer, **problems(404, 409, 502, 503, 504)},
    )
    def get(self, _request: Request, cluster: str, group: str) -> Response:
        return self.etagged(shapes.offsets_json(_existing(self.cluster(cluster), group)))


class GroupReset(AdminView):
    """Resetting offsets."""

    rights = {"POST": Right.GROUPS_WRITE}

    @extend_schema(
        operation_id="group_reset",
        summary="Reset a group's offsets, or preview it",
        description=(
            "First with dry_run (the default): every partition with before and after, and a token. "
            "Then the same with dry_run false and the token: refused (412) when offsets or topics "
            "changed since, and (409) while members are connected."
        ),
        request=shapes.ResetSerializer,
        responses={
            200: shapes.PreviewSerializer,
            **problems(404, 409, 412, 422, 502, 503, 504),
        },
        examples=[
            OpenApiExample("Preview of a reset to a time", value=RESET_EXAMPLE, request_only=True),
            OpenApiExample("Its answer", value=PREVIEW_EXAMPLE, response_only=True),
        ],
    )
    @idempotent()
    def post(self, _request: Request, cluster: str, group: str) -> Response:
        found, body = self.cluster(cluster), self.body(shapes.ResetSerializer)
        selection, target = shapes.selection_of(body.get("topics")), _target(body["to"])
        if body["dry_run"]:
            preview = preview_reset(found, group, selection, target)
            return Response(
                shapes.preview_json(
                    group, preview.moves, preview=preview, why_refused=preview.why_refused
                )
            )
        change = groups.reset_offsets(self.actor, found, group, selection, target, body["token"])
        return Response(shapes.preview_json(group, _moves(change), change=change))


class GroupTopicOffsets(AdminView):
    """A group's commits in one topic."""

    rights = {"DELETE": Right.GROUPS_WRITE}

    @extend_schema(
        operation_id="group_offsets_delete",
        summary="Delete a group's offsets in one topic",
        parameters=[IF_MATCH],
        request=None,
        responses={200: shapes.PreviewSerializer, **problems(404, 409, 412, 428, 502, 503, 504)},
    )
    def delete(self, _request: Request, cluster: str, group: str, topic: str) -> Response:
        found = self.cluster(cluster)
        groups.check_may_change(self.actor, found, group)
        self.if_match(shapes.offsets_json(_existing(found, group)))
        change = groups.delete_topic_offsets(self.actor, found, group, topic, topic)
        return Response(shapes.preview_json(group, _moves(change), change=change))


class GroupChanges(AdminView):
    """What can be undone."""

    rights = {"GET": Right.VIEW}

    @extend_schema(
        operation_id="group_changes",
        summary="Changes of a group's offsets that can be undone",
        responses={200: shapes.GroupChangesSerializer, **problems(404)},
    )
    def get(self, _request: Request, cluster: str, group: str) -> Response:
        changes = groups.recent_changes(self.cluster(cluster), group)
        return Response({"group": group, "changes": [shapes.change_json(one) for one in changes]})


class GroupUndo(AdminView):
    """Undoing a change."""

    rights = {"POST": Right.GROUPS_WRITE}

    @extend_schema(
        operation_id="group_undo",
        summary="Undo a change of a group's offsets",
        description=(
            "Refused (409) when it was undone already or is too old, while members are connected, "
            "and when the offsets moved since."
        ),
        request=shapes.UndoSerializer,
        responses={200: shapes.PreviewSerializer, **problems(404, 409, 502, 503, 504)},
    )
    @idempotent()
    def post(self, _request: Request, cluster: str, group: str, change: int) -> Response:
        found, body = self.cluster(cluster), self.body(shapes.UndoSerializer)
        if body["dry_run"]:
            preview = groups.preview_undo(found, group, change)
            return Response(
                shapes.preview_json(group, preview.moves, why_refused=preview.why_refused)
            )
        undone = groups.undo_change(self.actor, found, group, change)
        moves = tuple(
            GroupMove(*where, after, before, 0, 0)
            for where, before, after in read_moves(undone.moves)
        )
        return Response(shapes.preview_json(group, moves, change=undone))


def _existing(cluster: Any, name: str) -> GroupNow:
    found = read_group(cluster, name)
    if not found.exists:
        raise no_such_group(name)
    return found


def _moves(change: OffsetChange) -> tuple[GroupMove, ...]:
    """What was done. Counts need the log's bounds: they stand in the preview."""
    return tuple(
        GroupMove(*where, before, after, 0, 0) for where, before, after in read_moves(change.moves)
    )


def _target(fields: dict[str, str]) -> Target:
    try:
        return read_target(fields["place"], fields["value"])
    except BadTarget as error:
        raise ValidationError({"to": [str(error)]}) from error


_GROUP = "admin/v1/clusters/<slug:cluster>/groups/<name:group>"
urlpatterns = [
    path("admin/v1/clusters/<slug:cluster>/groups", ClusterGroups.as_view(), name="cluster_groups"),
    path(_GROUP, ClusterGroup.as_view(), name="group"),
    path(f"{_GROUP}/offsets", GroupOffsets.as_view(), name="group_offsets"),
    path(f"{_GROUP}/offsets/reset", GroupReset.as_view(), name="group_reset"),
    path(
        f"{_GROUP}/offsets/topics/<name:topic>",
        GroupTopicOffsets.as_view(),
        name="group_topic_offsets",
    ),
    path(f"{_GROUP}/changes", GroupChanges.as_view(), name="group_changes"),
    path(f"{_GROUP}/changes/<int:change>/undo", GroupUndo.as_view(), name="group_undo"),
]
