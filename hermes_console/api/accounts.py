"""`/api/admin/v1/accounts`: who may use the console, and as what; and `/api/admin/v1/me`."""

from __future__ import annotations

from typing import Any, Final

from django.urls import path, reverse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.links import INVITATION_LIFETIME
from hermes_console.accounts.models import ApiToken, User
from hermes_console.accounts.rights import Right, Role
from hermes_console.api.base import AdminView, PageQuery, idempotent, if_match_header, problems
from hermes_console.api.cursor import make_cursor, read_cursor
from hermes_console.operations import accounts

ROLES: Final = [role.value for role in Role]
EXAMPLE: Final = {
    "name": "vera",
    "role": "viewer",
    "is_enabled": True,
    "has_password": True,
}


class AccountSerializer(serializers.Serializer[Any]):
    """An account. `has_password` false: only one-time links sign it in."""

    name = serializers.CharField()
    role = serializers.ChoiceField(ROLES)
    is_enabled = serializers.BooleanField()
    has_password = serializers.BooleanField()


class AccountPageSerializer(serializers.Serializer[Any]):
    """A page of accounts, in order of name."""

    accounts = AccountSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)


class AccountQuery(PageQuery):
    """Parameters of the list."""

    q = serializers.CharField(
        required=False, allow_blank=True, max_length=150, help_text="Part of the name."
    )
    role = serializers.ChoiceField(ROLES, required=False)


class NewAccountSerializer(serializers.Serializer[Any]):
    """Without a password the answer holds a one-time sign-in link."""

    name = serializers.CharField(max_length=150, help_text="Letters, digits and @ . + - _")
    role = serializers.ChoiceField(ROLES)
    password = serializers.CharField(
        required=False, max_length=4096, trim_whitespace=False, help_text="12 characters or more."
    )


class NewAccountAnswerSerializer(AccountSerializer):
    """The account; `sign_in_link` is shown once, and null when a password was set."""

    sign_in_link = serializers.CharField(allow_null=True)


class AccountChangeSerializer(serializers.Serializer[Any]):
    """What to change; what is absent stays."""

    role = serializers.ChoiceField(ROLES, required=False)
    is_enabled = serializers.BooleanField(
        required=False, help_text="false ends sessions and refuses tokens at once."
    )


class SignInLinkSerializer(serializers.Serializer[Any]):
    """Shown once; works once."""

    sign_in_link = serializers.CharField(allow_null=True)
    valid_for_hours = serializers.IntegerField()


class UnlockedSerializer(serializers.Serializer[Any]):
    """At how many addresses failures were forgotten."""

    addresses = serializers.IntegerField()


class MeSerializer(serializers.Serializer[Any]):
    """Who you are to the console."""

    account = serializers.CharField()
    role = serializers.ChoiceField(ROLES)
    via = serializers.ChoiceField(["session", "token"])
    rights = serializers.ListField(child=serializers.ChoiceField([right.value for right in Right]))
    token_prefix = serializers.CharField(allow_null=True)
    token_expires_at = serializers.DateTimeField(allow_null=True)


class Me(AdminView):
    """The caller."""

    rights = {"GET": Right.VIEW}

    @extend_schema(
        operation_id="me",
        summary="Show who you are and what you may do",
        responses={200: MeSerializer, **problems()},
        examples=[
            OpenApiExample(
                "A token of a viewer",
                value={
                    "account": "vera",
                    "role": "viewer",
                    "via": "token",
                    "rights": ["view"],
                    "token_prefix": "hermes_Zk3pQx",
                    "token_expires_at": "2027-01-01T00:00:00Z",
                },
                status_codes=["200"],
                response_only=True,
            )
        ],
    )
    def get(self, request: Request) -> Response:
        token = request.auth if isinstance(request.auth, ApiToken) else None
        return Response(
            {
                "account": self.actor.name,
                "role": self.actor.role.value,
                "via": self.actor.via,
                "rights": sorted(right.value for right in self.actor.rights),
                "token_prefix": None if token is None else token.prefix,
                "token_expires_at": None if token is None else token.expires_at,
            }
        )


class AccountList(AdminView):
    """All accounts, and a new one."""

    rights = {"GET": Right.ACCOUNTS_WRITE, "POST": Right.ACCOUNTS_WRITE}

    @extend_schema(
        operation_id="accounts_list",
        summary="List accounts",
        parameters=[AccountQuery],
        responses={200: AccountPageSerializer, **problems()},
        examples=[
            OpenApiExample(
                "One account",
                value={"accounts": [EXAMPLE], "next_cursor": None},
                status_codes=["200"],
                response_only=True,
            )
        ],
    )
    def get(self, request: Request) -> Response:
        query = self.query(AccountQuery)
        found = User.objects.order_by("username")
        if query.get("q"):
            found = found.filter(username__icontains=query["q"])
        if query.get("role"):
            found = found.filter(role=query["role"])
        if query.get("cursor"):
            found = found.filter(username__gt=_cursor_name(query["cursor"]))
        limit = query["limit"]
        rows = list(found[: limit + 1])
        page = rows[:limit]
        next_cursor = make_cursor(page[-1].username) if len(rows) > limit else None
        return Response(
            {
                "accounts": [accounts.account_json(user) for user in page],
                "next_cursor": next_cursor,
            }
        )

    @extend_schema(
        operation_id="accounts_create",
        summary="Create an account",
        description="Without a password the answer holds a one-time sign-in link to hand over.",
        request=NewAccountSerializer,
        responses={201: NewAccountAnswerSerializer, **problems(409, 415, 422, 503)},
        examples=[
            OpenApiExample(
                "With a one-time link", value={"name": "vera", "role": "viewer"}, request_only=True
            ),
            OpenApiExample(
                "The link is shown once",
                value={
                    **EXAMPLE,
                    "has_password": False,
                    "sign_in_link": "https://console.example/accounts/link/…",
                },
                status_codes=["201"],
                response_only=True,
            ),
        ],
    )
    @idempotent(without=("sign_in_link",))
    def post(self, request: Request) -> Response:
        wanted = self.body(NewAccountSerializer)
        user, link = accounts.create_account(
            self.actor,
            name=wanted["name"],
            role=Role(wanted["role"]),
            password=wanted.get("password"),
        )
        address = reverse("api:account", kwargs={"account": user.username})
        body = {**accounts.account_json(user), "sign_in_link": _link_address(request, link)}
        return Response(body, status=201, headers={"Location": address})


class AccountDetail(AdminView):
    """One account."""

    rights = {"GET": Right.ACCOUNTS_WRITE, "PATCH": Right.ACCOUNTS_WRITE}

    @extend_schema(
        operation_id="accounts_get",
        summary="Show an account",
        responses={200: AccountSerializer, **problems(404)},
        examples=[OpenApiExample("A viewer", value=EXAMPLE, response_only=True)],
    )
    def get(self, request: Request, account: str) -> Response:
        return self.etagged(accounts.account_json(user_named(account)))

    @extend_schema(
        operation_id="accounts_change",
        summary="Change an account's role, disable or enable it",
        description=(
            "Acts from the account's next request on, for running sessions and tokens alike. "
            "The last enabled operator can be neither demoted nor disabled (409 last-operator)."
        ),
        parameters=[if_match_header()],
        request=AccountChangeSerializer,
        responses={200: AccountSerializer, **problems(404, 409, 412, 415, 422, 428, 503)},
        examples=[
            OpenApiExample("Make a viewer", value={"role": "viewer"}, request_only=True),
            OpenApiExample("The account", value=EXAMPLE, response_only=True, status_codes=["200"]),
        ],
    )
    def patch(self, request: Request, account: str) -> Response:
        user, wanted = user_named(account), self.body(AccountChangeSerializer)
        changed = accounts.change_account(
            self.actor,
            user,
            role=Role(wanted["role"]) if "role" in wanted else None,
            is_enabled=wanted.get("is_enabled"),
            check=lambda now: self.if_match(accounts.account_json(now)),
        )
        return self.etagged(accounts.account_json(changed))


class AccountLinks(AdminView):
    """One-time sign-in links of an account."""

    rights = {"POST": Right.ACCOUNTS_WRITE}

    @extend_schema(
        operation_id="accounts_sign_in_link",
        summary="Make a one-time sign-in link",
        description="Earlier unused links of the account end. The link is shown once.",
        request=None,
        responses={201: SignInLinkSerializer, **problems(404, 409, 422, 503)},
        examples=[
            OpenApiExample(
                "A link",
                value={
                    "sign_in_link": "https://console.example/accounts/link/…",
                    "valid_for_hours": 24,
                },
                response_only=True,
                status_codes=["201"],
            )
        ],
    )
    @idempotent(without=("sign_in_link",))
    def post(self, request: Request, account: str) -> Response:
        token = accounts.make_link(self.actor, user_named(account))
        hours = int(INVITATION_LIFETIME.total_seconds() // 3600)
        return Response(
            {"sign_in_link": _link_address(request, token), "valid_for_hours": hours}, status=201
        )


class AccountUnlock(AdminView):
    """Ends a lock-out."""

    rights = {"POST": Right.ACCOUNTS_WRITE}

    @extend_schema(
        operation_id="accounts_unlock",
        summary="Forget failed sign-ins of an account",
        request=None,
        responses={200: UnlockedSerializer, **problems(404, 409, 422, 503)},
        examples=[OpenApiExample("Unlocked", value={"addresses": 1}, response_only=True)],
    )
    @idempotent()
    def post(self, request: Request, account: str) -> Response:
        return Response({"addresses": accounts.unlock(self.actor, user_named(account))})


def user_named(name: str) -> User:
    """Raises NotFound."""
    found = User.objects.filter(username=name).first() if "\0" not in name else None
    if found is None:
        raise NotFound(f"There is no account named {name!r}.")
    return found


def _link_address(request: Request, token: str | None) -> str | None:
    if token is None:
        return None
    return request.build_absolute_uri(reverse("accounts:link", args=[token]))


def _cursor_name(cursor: str) -> str:
    try:
        name = read_cursor(cursor)
    except ValueError as error:
        raise ValidationError({"cursor": ["Use next_cursor of the page before."]}) from error
    if "\0" in name or len(name) > 150 or not name.isprintable():
        raise ValidationError({"cursor": ["Use next_cursor of the page before."]})
    return name


urlpatterns = [
    path("admin/v1/me", Me.as_view(), name="me"),
    path("admin/v1/accounts", AccountList.as_view(), name="accounts"),
    path("admin/v1/accounts/<name:account>", AccountDetail.as_view(), name="account"),
    path(
        "admin/v1/accounts/<name:account>/sign-in-links",
        AccountLinks.as_view(),
        name="account_links",
    ),
    path("admin/v1/accounts/<name:account>/unlock", AccountUnlock.as_view(), name="account_unlock"),
]
