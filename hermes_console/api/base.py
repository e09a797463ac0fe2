"""What every view of the admin API shares: rights per method, problems, ETags, pages of lists.

A view lists its `rights`; a method without one is refused (405 comes first for unknown methods).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hermes_console.accounts.actor import Actor, actor_of
from hermes_console.accounts.rights import Right
from hermes_console.api.cursor import Named, slice_after
from hermes_console.api.etag import etag_of, is_named
from hermes_console.api.idempotency import idempotent
from hermes_console.api.problems import CONTENT_TYPE, ProblemSerializer
from hermes_console.audit.record import require
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused

__all__ = ["AdminView", "PageQuery", "idempotent", "if_match_header", "problems"]

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500


class PageQuery(serializers.Serializer[Any]):
    """Parameters of every list."""

    limit = serializers.IntegerField(
        required=False, min_value=1, max_value=LIMIT_MAX, default=LIMIT_DEFAULT
    )
    cursor = serializers.CharField(
        required=False, max_length=1024, help_text="next_cursor of the page before."
    )


class AdminView(APIView):
    """A view below `/api/admin/v1`. Inside a method: `self.actor`, `self.cluster(name)`."""

    rights: ClassVar[Mapping[str, Right]] = {}
    http_method_names = ("get", "head", "post", "patch", "delete")
    actor: Actor

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authentication, then the right of the method; raises NotAllowed, recorded."""
        super().initial(request, *args, **kwargs)
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method.lower() not in self.http_method_names or not hasattr(self, method.lower()):
            return  # answered 405 right after this
        self.actor, right = actor_of(request), self.rights[method]
        if "cluster" in kwargs and self.actor.holds(right):
            return  # `cluster` finds it or not, and the operation asks for the right on it
        require(self.actor, right, cluster=None, target=request.path)

    def cluster(self, name: str) -> Cluster:
        """The cluster of the address. Raises NotFound when there is none of that name, or the
        token is not for it.
        """
        found = Cluster.objects.filter(name=name).first()
        if found is None or not self.actor.reaches(found):
            raise NotFound(f"There is no cluster named {name!r} for you.")
        return found

    def etagged(self, value: Any, *, status: int = 200) -> Response:
        """`value` with its ETag; 304 when If-None-Match names it already."""
        etag = etag_of(value)
        wanted = self.request.headers.get("If-None-Match")
        if self.request.method in {"GET", "HEAD"} and wanted and is_named(wanted, etag):
            return Response(status=304, headers={"ETag": etag})
        return Response(value, status=status, headers={"ETag": etag})

    def if_match(self, value: Any) -> None:
        """Before a change of what GET shows as `value`. Raises Refused: 428 without If-Match, 412
        when somebody changed it meanwhile.
        """
        header = self.request.headers.get("If-Match")
        if header is None:
            raise Refused(
                428,
                "if-match-required",
                "Send If-Match with the ETag of the GET that you saw (or * to change it "
                "whatever it is).",
            )
        if not is_named(header, etag_of(value)):
            raise Refused(
                412,
                "changed-meanwhile",
                "It is not what If-Match names: it was changed since you read it, or the value is "
                "not an ETag. Send GET again, and its ETag header as If-Match.",
            )

    def query(self, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The checked query parameters. Raises ValidationError."""
        found = serializer(data=self.request.query_params)
        found.is_valid(raise_exception=True)
        values: dict[str, Any] = found.validated_data
        return values

    def body(self, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The checked body. Raises ValidationError."""
        found = serializer(data=self.request.data)
        found.is_valid(raise_exception=True)
        values: dict[str, Any] = found.validated_data
        return values

    def page(
        self,
        items: list[Any],
        query: Mapping[str, Any],
        render: Callable[[Any], Any],
        *,
        key: str,
    ) -> dict[str, Any]:
        """`{key: [...], next_cursor}` of `items`, which have a `name` and are in its order."""
        named: list[Named] = items
        try:
            page, next_cursor = slice_after(named, query.get("cursor"), query["limit"])
        except ValueError as error:
            raise ValidationError({"cursor": ["Use next_cursor of the page before."]}) from error
        return {key: [render(one) for one in page], "next_cursor": next_cursor}


def if_match_header(
    *, of: str = "the GET that you saw", is_required: bool = True
) -> OpenApiParameter:
    """For `parameters=` of `extend_schema`. `of` names the GET whose ETag it takes."""
    return OpenApiParameter(
        "If-Match",
        str,
        OpenApiParameter.HEADER,
        required=is_required,
        description=f"The ETag of {of}, or * for whatever it is.",
    )


def problems(*statuses: int) -> dict[Any, Any]:
    """For `responses=` of `extend_schema`: 401, 403, 404?… what the view may answer beside its
    result. 400, 401, 403, 406 and 429 are always there.
    """
    every = sorted({400, 401, 403, 406, 429, *statuses})
    return {(status, CONTENT_TYPE): ProblemSerializer for status in every}
