"""Settings of a topic or a broker over the API: reading and changing them is the same for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.api import topics_shapes as shapes
from hermes_console.api.base import AdminView, if_match_header
from hermes_console.clusters import Cluster
from hermes_console.operations import topics
from hermes_console.operations.configs import VALUE_LENGTH_MAX, Change, Setting

IF_MATCH: Final = if_match_header(of="GET …/config")
DRY_RUN: Final = OpenApiParameter(
    "dry_run", bool, description="Let the cluster check it and change nothing."
)
CLUSTER_TROUBLE: Final = (404, 501, 502, 503, 504)
CHANGE_TROUBLE: Final = (409, 412, 422, 428, *CLUSTER_TROUBLE)
CHANGES_BODY: Final = {
    "application/json": {
        "type": "object",
        "additionalProperties": {"type": "string", "nullable": True},
    }
}
"""`request=` of a PATCH."""

Wanted = Mapping[str, str | None]
Read = Callable[[], list[Setting]]


class ConfigView(AdminView):
    """Of one thing with settings, whose `name` stands in the answer."""

    def answer_get(self, cluster: Cluster, name: str, read: Read) -> Response:
        return self.etagged(shapes.config_json(cluster.name, name, read()))

    def answer_patch(
        self,
        cluster: Cluster,
        name: str,
        read: Read,
        *,
        try_out: Callable[[Wanted], list[Change]],
        change: Callable[[Wanted, Callable[[], object]], list[Change]],
    ) -> Response:
        """`change` calls its second argument under its lock, before it changes anything: it raises
        Refused when If-Match names other settings than those of now.
        """
        wanted, is_dry = read_changes(self.request.data), is_dry_run(self.request)

        def check() -> None:
            self.if_match(shapes.config_json(cluster.name, name, read()))

        if is_dry:
            check()
        changes = try_out(wanted) if is_dry else change(wanted, check)
        return Response(shapes.changes_json(changes, is_dry_run=is_dry))


def read_changes(body: Any) -> dict[str, str | None]:
    """The body of a PATCH of settings. Raises ValidationError."""
    if not isinstance(body, dict) or not 0 < len(body) <= topics.SETTINGS_MAX:
        raise ValidationError(
            {"body": [f"An object of 1 to {topics.SETTINGS_MAX} settings: name → value or null."]}
        )
    wanted: dict[str, str | None] = {}
    for name, value in body.items():
        is_good = value is None or isinstance(value, str)
        if not is_good or len(value or "") > VALUE_LENGTH_MAX or not 0 < len(name) <= 249:
            raise ValidationError({name[:64] or "body": ["A text, or null to take it away."]})
        wanted[name] = value
    return wanted


def is_dry_run(request: Request) -> bool:
    """Raises ValidationError for what is neither true nor false."""
    return bool(
        serializers.BooleanField().run_validation(request.query_params.get("dry_run", "false"))
    )
