"""`/api/admin/v1/tokens`: the API tokens of the caller; of any account for who manages accounts."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.models import ApiToken, User
from hermes_console.accounts.rights import Right
from hermes_console.accounts.tokens import LIFETIME_DAYS_DEFAULT, LIFETIME_DAYS_MAX
from hermes_console.api.base import AdminView, PageQuery, idempotent, if_match_header, problems
from hermes_console.audit.record import require
from hermes_console.clusters import CLUSTERS_MAX, Cluster
from hermes_console.operations import tokens

RIGHTS: Final = [right.value for right in Right]
NUMBER_LENGTH_MAX: Final = 18
EXAMPLE: Final = {
    "id": "7",
    "account": "vera",
    "name": "nightly offset report",
    "prefix": "hermes_Zk3pQx",
    "rights": ["view"],
    "clusters": ["local"],
    "state": "active",
    "created_at": "2026-11-29T12:00:00Z",
    "expires_at": "2027-02-27T12:00:00Z",
    "revoked_at": None,
    "used_at": "2026-11-30T02:00:00Z",
    "used_from": "10.0.0.7",
}


class TokenSerializer(serializers.Serializer[Any]):
    """A token, without its secret."""

    id = serializers.CharField()
    account = serializers.CharField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="How the token begins.")
    rights = serializers.ListField(child=serializers.ChoiceField(RIGHTS))
    clusters = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="null: all clusters."
    )
    state = serializers.ChoiceField(["active", "expired", "revoked"])
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    used_at = serializers.DateTimeField(allow_null=True, help_text="To the minute.")
    used_from = serializers.CharField(allow_null=True)


class TokenPageSerializer(serializers.Serializer[Any]):
    """A page of tokens, newest first."""

    tokens = TokenSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class TokenQuery(PageQuery):
    """Parameters of the list."""

    account = serializers.CharField(
        required=False,
        max_length=150,
        help_text="Of another account, or * for all: needs accounts:write.",
    )


class NewTokenSerializer(serializers.Serializer[Any]):
    """A new token of the caller."""

    name = serializers.RegexField(r"^[^\x00-\x1f\x7f]+$", max_length=100, help_text="What for.")
    rights = serializers.ListField(
        child=serializers.ChoiceField(RIGHTS), min_length=1, max_length=len(RIGHTS)
    )
    clusters = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        allow_null=True,
        min_length=1,
        max_length=CLUSTERS_MAX,
        help_text="Names; null or absent: all clusters.",
    )
    days = serializers.IntegerField(
        min_value=1, max_value=LIFETIME_DAYS_MAX, default=LIFETIME_DAYS_DEFAULT
    )


class NewTokenAnswerSerializer(TokenSerializer):
    """The token with its secret, which is shown once: null in a repeated answer."""

    token = serializers.CharField(allow_null=True)


class TokenList(AdminView):
    """The caller's tokens, and a new one."""

    rights = {"GET": Right.VIEW, "POST": Right.VIEW}

    @extend_schema(
        operation_id="tokens_list",
        summary="List API tokens",
        parameters=[TokenQuery],
        responses={200: TokenPageSerializer, **problems(404)},
        examples=[
            OpenApiExample(
                "One token",
                value={"tokens": [EXAMPLE], "next_cursor": None},
                status_codes=["200"],
                response_only=True,
            )
        ],
    )
    def get(self, request: Request) -> Response:
        query = self.query(TokenQuery)
        found = self._wanted(query.get("account"))
        if query.get("cursor"):
            found = found.filter(pk__lt=number_of(query["cursor"]))
        limit = query["limit"]
        rows = list(
            found.select_related("user").prefetch_related("clusters").order_by("-pk")[: limit + 1]
        )
        page = rows[:limit]
        next_cursor = str(page[-1].pk) if len(rows) > limit else None
        return Response(
            {"tokens": [tokens.token_json(one) for one in page], "next_cursor": next_cursor}
        )

    @extend_schema(
        operation_id="tokens_create",
        summary="Make an API token",
        description=(
            "Of the account that is signed in; needs a session: a token cannot make tokens "
            "(403 session-required). The secret is shown once."
        ),
        request=NewTokenSerializer,
        responses={201: NewTokenAnswerSerializer, **problems(409, 415, 422, 503)},
        examples=[
            OpenApiExample(
                "For a report",
                value={"name": "nightly offset report", "rights": ["view"], "days": 90},
                request_only=True,
            ),
            OpenApiExample(
                "The secret is shown once",
                value={**EXAMPLE, "used_at": None, "used_from": None, "token": "hermes_Zk3pQx…"},
                status_codes=["201"],
                response_only=True,
            ),
        ],
    )
    @idempotent(without=("token",))
    def post(self, request: Request) -> Response:
        wanted = self.body(NewTokenSerializer)
        token, secret = tokens.make_token(
            self.actor,
            _owner(request),
            name=wanted["name"],
            rights={Right(value) for value in wanted["rights"]},
            clusters=_clusters(wanted.get("clusters")),
            days=wanted["days"],
        )
        address = reverse("api:token", kwargs={"token": token.pk})
        body = {**tokens.token_json(token), "token": secret}
        return Response(body, status=201, headers={"Location": address})

    def _wanted(self, account: str | None) -> QuerySet[ApiToken]:
        if account is None or account == self.actor.name:
            return ApiToken.objects.filter(user=_owner(self.request))
        require(self.actor, Right.ACCOUNTS_WRITE, cluster=None, target=f"tokens of {account}")
        if account == "*":
            return ApiToken.objects.all()
        return ApiToken.objects.filter(user__username=account)


class TokenDetail(AdminView):
    """One token."""

    rights = {"GET": Right.VIEW, "DELETE": Right.VIEW}

    @extend_schema(
        operation_id="tokens_get",
        summary="Show an API token",
        responses={200: TokenSerializer, **problems(404)},
        examples=[OpenApiExample("A token", value=EXAMPLE, response_only=True)],
    )
    def get(self, request: Request, token: int) -> Response:
        return self.etagged(tokens.token_json(self._token(token)))

    @extend_schema(
        operation_id="tokens_revoke",
        summary="Revoke an API token",
        description="At once and for good; the row stays for the audit.",
        parameters=[if_match_header(is_required=False)],
        responses={200: TokenSerializer, **problems(404, 409, 412, 503)},
        examples=[
            OpenApiExample(
                "Revoked",
                value={**EXAMPLE, "state": "revoked", "revoked_at": "2026-12-01T08:00:00Z"},
                response_only=True,
                status_codes=["200"],
            )
        ],
    )
    def delete(self, request: Request, token: int) -> Response:
        found = self._token(token)
        if "If-Match" in request.headers:
            self.if_match(tokens.token_json(found))
        return self.etagged(tokens.token_json(tokens.revoke_token(self.actor, found)))

    def _token(self, key: int) -> ApiToken:
        """Somebody else's does not exist for who may not manage accounts. Raises NotFound."""
        found = ApiToken.objects.select_related("user").filter(pk=key).first()
        is_mine = found is not None and found.user_id == self.actor.user_id
        if found is None or not (is_mine or self.actor.may(Right.ACCOUNTS_WRITE)):
            raise NotFound("There is no such token.")
        return found


def number_of(cursor: str) -> int:
    """The key that a cursor names. Raises ValidationError."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= NUMBER_LENGTH_MAX):
        raise ValidationError({"cursor": ["Use next_cursor of the page before."]})
    return int(cursor)


def _owner(request: Request) -> User:
    assert isinstance(request.user, User), "nobody else has a right"
    return request.user


def _clusters(names: list[str] | None) -> list[Cluster] | None:
    if names is None:
        return None
    found = {cluster.name: cluster for cluster in Cluster.objects.filter(name__in=names)}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise ValidationError({"clusters": [f"There is no cluster named {unknown[0]!r}."]})
    return list(found.values())


urlpatterns = [
    path("admin/v1/tokens", TokenList.as_view(), name="tokens"),
    path("admin/v1/tokens/<int:token>", TokenDetail.as_view(), name="token"),
]
