"""`/api/admin/v1/audit`: who did what, and what came of it. Read only: nothing writes here."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.api.base import AdminView, PageQuery, problems
from hermes_console.api.tokens import number_of
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.operations.audit import AuditFilter, event_json, select

EXAMPLE: Final = {
    "id": "1042",
    "at": "2026-11-29T12:00:00.123Z",
    "actor": "admin",
    "via": "session",
    "address": "10.0.0.7",
    "action": "account.change-role",
    "right": "accounts:write",
    "cluster": None,
    "target": "vera",
    "before": {"name": "vera", "role": "viewer", "is_enabled": True, "has_password": True},
    "after": {"name": "vera", "role": "operator", "is_enabled": True, "has_password": True},
    "outcome": "done",
    "reason": "",
    "request_id": "9f2c0d3b5a7e41f88a6b0c1d",
}


@extend_schema_field(OpenApiTypes.ANY)
class AnyJson(serializers.JSONField):
    """Any JSON value."""


class AuditEventSerializer(serializers.Serializer[Any]):
    """One act. `before` and `after` are what the act found and left; null: not known or nothing."""

    id = serializers.CharField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    via = serializers.ChoiceField(["session", "token", "system"])
    address = serializers.CharField(allow_blank=True)
    action = serializers.CharField(help_text="<noun>.<verb>, for example topic.create.")
    right = serializers.CharField(allow_null=True, help_text="The right that it took.")
    cluster = serializers.CharField(allow_null=True)
    target = serializers.CharField(allow_blank=True)
    before = AnyJson(allow_null=True)
    after = AnyJson(allow_null=True)
    outcome = serializers.ChoiceField(
        Outcome.values,
        help_text="started: the console ended in between, nobody knows what came of it.",
    )
    reason = serializers.CharField(allow_blank=True, help_text="Why it was refused or failed.")
    request_id = serializers.CharField(allow_blank=True)


class AuditPageSerializer(serializers.Serializer[Any]):
    """A page of acts, newest first."""

    events = AuditEventSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class AuditQuery(PageQuery):
    """Parameters of the list."""

    actor = serializers.CharField(required=False, allow_blank=True, max_length=150)
    action = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=64,
        help_text="topic.create, or topic for all acts on topics.",
    )
    cluster = serializers.CharField(required=False, allow_blank=True, max_length=63)
    outcome = serializers.ChoiceField(Outcome.values, required=False)
    q = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=255,
        help_text="Part of the target or the reason, or a whole request id.",
    )
    since = serializers.DateTimeField(required=False, help_text="From this moment on.")
    until = serializers.DateTimeField(required=False, help_text="Before this moment.")


class AuditList(AdminView):
    """The acts."""

    rights = {"GET": Right.AUDIT_READ}

    @extend_schema(
        operation_id="audit_list",
        summary="List what was done and refused",
        description="A token for chosen clusters sees the rows of these clusters alone.",
        parameters=[AuditQuery],
        responses={200: AuditPageSerializer, **problems()},
        examples=[
            OpenApiExample(
                "A role was changed",
                value={"events": [EXAMPLE], "next_cursor": None},
                status_codes=["200"],
                response_only=True,
            )
        ],
    )
    def get(self, request: Request) -> Response:
        query = self.query(AuditQuery)
        found = select(
            AuditFilter(
                actor=query.get("actor", ""),
                action=query.get("action", ""),
                cluster=query.get("cluster", ""),
                outcome=query.get("outcome", ""),
                text=query.get("q", ""),
                since=query.get("since"),
                until=query.get("until"),
            )
        )
        found = visible_to(self.actor, found)
        if query.get("cursor"):
            found = found.filter(pk__lt=number_of(query["cursor"]))
        limit = query["limit"]
        rows = list(found[: limit + 1])
        page = rows[:limit]
        next_cursor = str(page[-1].pk) if len(rows) > limit else None
        return Response({"events": [event_json(one) for one in page], "next_cursor": next_cursor})


class AuditDetail(AdminView):
    """One act."""

    rights = {"GET": Right.AUDIT_READ}

    @extend_schema(
        operation_id="audit_get",
        summary="Show one act",
        responses={200: AuditEventSerializer, **problems(404)},
        examples=[OpenApiExample("A role was changed", value=EXAMPLE, response_only=True)],
    )
    def get(self, request: Request, event: int) -> Response:
        found = visible_to(self.actor, AuditEvent.objects.filter(pk=event)).first()
        if found is None:
            raise NotFound("There is no such row in the audit.")
        return Response(event_json(found))


def visible_to(actor: Actor, found: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
    """Of `found` what the actor may see: a token for chosen clusters their rows alone."""
    return found if actor.clusters is None else found.filter(cluster_id__in=actor.clusters)


urlpatterns = [
    path("admin/v1/audit", AuditList.as_view(), name="audit"),
    path("admin/v1/audit/<int:event>", AuditDetail.as_view(), name="audit_event"),
]
