"""`/api/admin/v1/clusters/{cluster}/brokers…`: the nodes of a cluster and their settings."""

from __future__ import annotations

from typing import Any, Final

from django.urls import path
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.rights import Right
from hermes_console.api import topics_shapes as shapes
from hermes_console.api.base import AdminView, problems
from hermes_console.api.configs import (
    CHANGE_TROUBLE,
    CHANGES_BODY,
    CLUSTER_TROUBLE,
    DRY_RUN,
    IF_MATCH,
    ConfigView,
)
from hermes_console.operations import brokers
from hermes_console.operations.brokers import Broker, Scope

SCOPE: Final = OpenApiParameter(
    "scope",
    str,
    enum=[one.value for one in Scope],
    default=Scope.BROKER.value,
    description="broker: this one alone; cluster: all brokers.",
)


class DirectorySerializer(serializers.Serializer[Any]):
    """A data directory; null is unknown."""

    path = serializers.CharField()
    log_bytes = serializers.CharField()
    replica_count = serializers.IntegerField()
    total_bytes = serializers.CharField(allow_null=True)
    free_bytes = serializers.CharField(allow_null=True)
    trouble = serializers.CharField(allow_blank=True)


class BrokerSerializer(serializers.Serializer[Any]):
    """One node."""

    id = serializers.IntegerField()
    host = serializers.CharField()
    port = serializers.IntegerField()
    rack = serializers.CharField(allow_null=True)
    is_controller = serializers.BooleanField()
    leader_count = serializers.IntegerField(allow_null=True)
    replica_count = serializers.IntegerField(allow_null=True)
    directories = DirectorySerializer(many=True, allow_null=True)


class BrokersSerializer(serializers.Serializer[Any]):
    """All nodes, by id."""

    cluster = serializers.CharField()
    cluster_id = serializers.CharField()
    brokers = BrokerSerializer(many=True)
    gaps = serializers.ListField(
        child=serializers.CharField(), help_text="Why some numbers are null."
    )


EXAMPLE: Final = {
    "cluster": "local",
    "cluster_id": "q3Zt1c0bT6y4m0J8mK1h2A",
    "brokers": [
        {
            "id": 0,
            "host": "127.0.0.1",
            "port": 9092,
            "rack": None,
            "is_controller": True,
            "leader_count": 62,
            "replica_count": 62,
            "directories": [
                {
                    "path": "/var/lib/hermes",
                    "log_bytes": "73400320",
                    "replica_count": 62,
                    "total_bytes": "107374182400",
                    "free_bytes": "64424509440",
                    "trouble": "",
                }
            ],
        }
    ],
    "gaps": [],
}


class BrokerList(AdminView):
    """The brokers of a cluster."""

    rights = {"GET": Right.VIEW}

    @extend_schema(
        operation_id="brokers_list",
        summary="List brokers with their disks",
        responses={200: BrokersSerializer, **problems(*CLUSTER_TROUBLE)},
        examples=[OpenApiExample("A single node", value=EXAMPLE, response_only=True)],
    )
    def get(self, _request: Request, cluster: str) -> Response:
        name = self.cluster(cluster)
        found = brokers.read_brokers(name)
        return Response(
            {
                "cluster": name.name,
                "cluster_id": found.cluster_id,
                "brokers": [_broker_json(one) for one in found.brokers],
                "gaps": list(found.gaps),
            }
        )


class BrokerDetail(AdminView):
    """One broker."""

    rights = {"GET": Right.VIEW}

    @extend_schema(
        operation_id="broker_detail",
        summary="One broker with its disks",
        responses={200: BrokerSerializer, **problems(*CLUSTER_TROUBLE)},
    )
    def get(self, _request: Request, cluster: str, node: int) -> Response:
        broker, _ = brokers.read_broker(self.cluster(cluster), node)
        return Response(_broker_json(broker))


class BrokerConfig(ConfigView):
    """The settings of a broker."""

    rights = {"GET": Right.VIEW, "PATCH": Right.CLUSTERS_WRITE}

    @extend_schema(
        operation_id="broker_config",
        summary="Settings, where each comes from, whether it needs a restart",
        responses={200: shapes.ConfigSerializer, **problems(*CLUSTER_TROUBLE)},
    )
    def get(self, _request: Request, cluster: str, node: int) -> Response:
        found = self.cluster(cluster)
        return self.answer_get(found, str(node), lambda: brokers.read_broker_settings(found, node))

    @extend_schema(
        operation_id="broker_configure",
        summary="Change settings while the broker runs",
        description="An object: setting → value; null takes the value set live away.",
        parameters=[IF_MATCH, DRY_RUN, SCOPE],
        request=CHANGES_BODY,
        responses={200: shapes.ChangesSerializer, **problems(*CHANGE_TROUBLE)},
        examples=[
            OpenApiExample(
                "Keep a day unless a topic says otherwise",
                value={"log.retention.ms": "86400000"},
                request_only=True,
            )
        ],
    )
    def patch(self, request: Request, cluster: str, node: int) -> Response:
        found = self.cluster(cluster)
        scope = _scope(request.query_params.get("scope", Scope.BROKER.value))
        return self.answer_patch(
            found,
            str(node),
            lambda: brokers.read_broker_settings(found, node),
            try_out=lambda wanted: brokers.check_broker_settings(found, node, wanted, scope=scope),
            change=lambda wanted, check: brokers.change_broker_settings(
                self.actor, found, node, wanted, scope=scope, etag=None, check=check
            ),
        )


def _scope(text: str) -> Scope:
    if text not in {one.value for one in Scope}:
        raise ValidationError({"scope": ["broker or cluster."]})
    return Scope(text)


def _broker_json(one: Broker) -> dict[str, Any]:
    directories = one.directories
    return {
        "id": one.node.node_id,
        "host": one.node.host,
        "port": one.node.port,
        "rack": one.node.rack,
        "is_controller": one.is_controller,
        "leader_count": one.leader_count,
        "replica_count": one.replica_count,
        "directories": None
        if directories is None
        else [
            {
                "path": each.path,
                "log_bytes": str(each.log_bytes),
                "replica_count": each.replica_count,
                "total_bytes": None if each.total_bytes is None else str(each.total_bytes),
                "free_bytes": None if each.free_bytes is None else str(each.free_bytes),
                "trouble": each.trouble,
            }
            for each in directories
        ],
    }


_BROKERS = "admin/v1/clusters/<slug:cluster>/brokers"
urlpatterns = [
    path(_BROKERS, BrokerList.as_view(), name="brokers"),
    path(f"{_BROKERS}/<int:node>", BrokerDetail.as_view(), name="broker"),
    path(f"{_BROKERS}/<int:node>/config", BrokerConfig.as_view(), name="broker_config"),
]
