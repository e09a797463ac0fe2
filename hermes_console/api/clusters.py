"""`/api/admin/v1/clusters`: which clusters this console watches, and what each can do."""

from __future__ import annotations

from typing import Any, Final

from django.urls import path, reverse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.rights import Right
from hermes_console.api.base import AdminView, PageQuery, idempotent, if_match_header, problems
from hermes_console.clusters import Cluster, ClusterKind
from hermes_console.operations import clusters
from hermes_console.operations.clusters import Found

KINDS: Final = ClusterKind.values
EXAMPLE: Final = {
    "name": "billing",
    "bootstrap_address": "kafka-1:9092,kafka-2:9092",
    "kind": "kafka",
    "is_from_environment": False,
}
FOUND_EXAMPLE: Final = {
    "cluster_id": "AAAAAAAAQACAAAAAAAAAAA",
    "kind": "kafka",
    "version": "4.1 or newer",
    "nodes": ["kafka-1:9092", "kafka-2:9092"],
    "controller": "kafka-1:9092",
    "skills": [
        {"title": "Create topics", "is_there": True, "is_used_here": True, "missing": ""},
        {
            "title": "Quotas",
            "is_there": False,
            "is_used_here": False,
            "missing": "the cluster does not offer API 48, API 49",
        },
    ],
    "warnings": [],
}


class ClusterSerializer(serializers.Serializer[Any]):
    """A cluster."""

    name = serializers.CharField()
    bootstrap_address = serializers.CharField()
    kind = serializers.ChoiceField(KINDS)
    is_from_environment = serializers.BooleanField(
        help_text="From HERMES_BOOTSTRAP: it can be neither changed nor removed here."
    )


class ClusterPageSerializer(serializers.Serializer[Any]):
    """A page of clusters, in order of name."""

    clusters = ClusterSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class SkillSerializer(serializers.Serializer[Any]):
    """A thing to do, and whether the cluster can."""

    title = serializers.CharField()
    is_there = serializers.BooleanField()
    is_used_here = serializers.BooleanField(help_text="false: the console has no page for it.")
    missing = serializers.CharField(allow_blank=True, help_text="Why not.")


class ClusterFoundSerializer(serializers.Serializer[Any]):
    """What answers at a cluster's address."""

    cluster_id = serializers.CharField(allow_blank=True)
    kind = serializers.ChoiceField(KINDS)
    version = serializers.CharField(allow_blank=True, help_text="As its APIs tell; a hint.")
    nodes = serializers.ListField(child=serializers.CharField())
    controller = serializers.CharField(allow_blank=True)
    skills = SkillSerializer(many=True)
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Bootstrap addresses that did not answer."
    )


class NewClusterSerializer(serializers.Serializer[Any]):
    """A cluster to watch."""

    name = serializers.CharField(max_length=63, help_text="1 to 63 of a-z, 0-9 and -.")
    bootstrap_address = serializers.CharField(
        max_length=1024, help_text="host:port, several joined by commas."
    )


class ClusterChangeSerializer(serializers.Serializer[Any]):
    """What to change; what is absent stays."""

    name = serializers.CharField(required=False, max_length=63)
    bootstrap_address = serializers.CharField(required=False, max_length=1024)


class ClusterList(AdminView):
    """All clusters, and a new one."""

    rights = {"GET": Right.VIEW, "POST": Right.CLUSTERS_WRITE}

    @extend_schema(
        operation_id="clusters_list",
        summary="List clusters",
        parameters=[PageQuery],
        responses={200: ClusterPageSerializer, **problems()},
        examples=[
            OpenApiExample(
                "One cluster",
                value={"clusters": [EXAMPLE], "next_cursor": None},
                status_codes=["200"],
                response_only=True,
            )
        ],
    )
    def get(self, request: Request) -> Response:
        query = self.query(PageQuery)
        found = [one for one in Cluster.objects.order_by("name") if self.actor.reaches(one)]
        return Response(self.page(found, query, clusters.cluster_json, key="clusters"))

    @extend_schema(
        operation_id="clusters_add",
        summary="Add a cluster",
        description=(
            "HermesMQ or Apache Kafka: which of them is found out. The address has to answer now "
            "(422 with the reason otherwise), and must not be the machine's own services or a "
            "cloud's metadata service (422 address-not-permitted). At most 32."
        ),
        request=NewClusterSerializer,
        responses={201: ClusterSerializer, **problems(409, 415, 422, 503)},
        examples=[
            OpenApiExample(
                "Two of its brokers",
                value={"name": "billing", "bootstrap_address": "kafka-1:9092,kafka-2:9092"},
                request_only=True,
            ),
            OpenApiExample("Added", value=EXAMPLE, response_only=True, status_codes=["201"]),
        ],
    )
    @idempotent()
    def post(self, request: Request) -> Response:
        wanted = self.body(NewClusterSerializer)
        cluster, _found = clusters.add_cluster(
            self.actor, name=wanted["name"], bootstrap_address=wanted["bootstrap_address"]
        )
        answer = self.etagged(clusters.cluster_json(cluster), status=201)
        answer["Location"] = reverse("api:cluster", kwargs={"cluster": cluster.name})
        return answer


class ClusterDetail(AdminView):
    """One cluster."""

    rights = {
        "GET": Right.VIEW,
        "PATCH": Right.CLUSTERS_WRITE,
        "DELETE": Right.CLUSTERS_WRITE,
    }

    @extend_schema(
        operation_id="clusters_get",
        summary="Show a cluster",
        responses={200: ClusterSerializer, **problems(404)},
        examples=[OpenApiExample("A cluster", value=EXAMPLE, response_only=True)],
    )
    def get(self, request: Request, cluster: str) -> Response:
        return self.etagged(clusters.cluster_json(self.cluster(cluster)))

    @extend_schema(
        operation_id="clusters_change",
        summary="Rename a cluster or move it to another address",
        parameters=[if_match_header()],
        request=ClusterChangeSerializer,
        responses={200: ClusterSerializer, **problems(404, 409, 412, 415, 422, 428, 503)},
        examples=[
            OpenApiExample("Rename", value={"name": "billing-eu"}, request_only=True),
            OpenApiExample("Renamed", value=EXAMPLE, response_only=True, status_codes=["200"]),
        ],
    )
    def patch(self, request: Request, cluster: str) -> Response:
        found = self.cluster(cluster)
        wanted = self.body(ClusterChangeSerializer)
        changed = clusters.change_cluster(self.actor, found, **wanted, check=self._check)
        return self.etagged(clusters.cluster_json(changed))

    @extend_schema(
        operation_id="clusters_remove",
        summary="Remove a cluster from the console",
        description="The cluster itself stays as it is; the console forgets its history.",
        parameters=[if_match_header()],
        responses={204: None, **problems(404, 409, 412, 428, 503)},
    )
    def delete(self, request: Request, cluster: str) -> Response:
        found = self.cluster(cluster)
        clusters.remove_cluster(self.actor, found, check=self._check)
        return Response(status=204)

    def _check(self, now: Cluster) -> None:
        self.if_match(clusters.cluster_json(now))


class ClusterTest(AdminView):
    """What answers at the cluster's address now."""

    rights = {"POST": Right.VIEW}

    @extend_schema(
        operation_id="clusters_test",
        summary="Test a cluster's connection",
        description="Takes at most about 20 seconds; 422 says what is wrong.",
        request=None,
        responses={200: ClusterFoundSerializer, **problems(404, 422, 503)},
        examples=[
            OpenApiExample(
                "Apache Kafka", value=FOUND_EXAMPLE, response_only=True, status_codes=["200"]
            )
        ],
    )
    def post(self, request: Request, cluster: str) -> Response:
        return Response(found_json(clusters.look_again(self.actor, self.cluster(cluster))))


def found_json(found: Found) -> dict[str, Any]:
    """As ClusterFoundSerializer describes it."""
    return {
        "cluster_id": found.cluster_id,
        "kind": found.kind.value,
        "version": found.version,
        "nodes": list(found.nodes),
        "controller": found.controller,
        "skills": [skill._asdict() for skill in found.skills],
        "warnings": list(found.warnings),
    }


urlpatterns = [
    path("admin/v1/clusters", ClusterList.as_view(), name="clusters"),
    path("admin/v1/clusters/<slug:cluster>", ClusterDetail.as_view(), name="cluster"),
    path("admin/v1/clusters/<slug:cluster>/test", ClusterTest.as_view(), name="cluster_test"),
]
