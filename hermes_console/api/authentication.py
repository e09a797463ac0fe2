"""Who calls the API: `Authorization: Bearer hermes_…`, or the session of a signed-in browser (then
with its CSRF token).
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from hermes_console.accounts.address import address_of
from hermes_console.accounts.models import ApiToken, User
from hermes_console.accounts.tokens import TokenRefused, authenticate


class BearerToken(BaseAuthentication):
    """An API token. A request without the header is left to the next class; another scheme or a bad
    token is refused and never falls back to a session.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        words = get_authorization_header(request).split()
        if not words:
            return None
        if words[0].lower() != b"bearer" or len(words) != 2:
            raise AuthenticationFailed("Send the header as: Authorization: Bearer <token>.")
        try:
            token = authenticate(words[1].decode("latin-1"), address_of(request))
        except TokenRefused as refusal:
            raise AuthenticationFailed(str(refusal)) from refusal
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="HermesMQ admin API"'


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The scheme in the OpenAPI document."""

    target_class = "hermes_console.api.authentication.BearerToken"
    name = "token"

    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API token, made on the profile page.",
        }
