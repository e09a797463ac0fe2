"""API tokens: `hermes_<43 characters>`, shown once, stored as SHA-256.

A token has at most the rights of its owner at the moment of use: who is demoted or disabled has
tokens that lose the same rights at once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from hermes_console.accounts.models import ApiToken, User
from hermes_console.accounts.rights import RIGHTS_OF, Right, Role
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused

MARK: Final = "hermes_"
TOKEN_BYTES: Final = 32
PREFIX_LENGTH: Final = len(MARK) + 6
LIFETIME_DAYS_DEFAULT: Final = 90
LIFETIME_DAYS_MAX: Final = 366
TOKENS_MAX: Final = 50
"""Active ones of one account."""
USED_EVERY: Final = timedelta(seconds=60)
"""The last use is kept to this: not every request writes."""


class TokenRefused(Exception):
    """A token that gives nothing; the message says why and what to do."""


def issue(
    user: User,
    *,
    name: str,
    rights: Collection[Right],
    clusters: Sequence[Cluster] | None,
    lifetime: timedelta,
) -> tuple[ApiToken, str]:
    """A new token of `user` and its secret, which nobody can read again. `clusters` None: all.

    Raises Refused for rights that the owner has not, a lifetime out of bounds, or too many tokens.
    """
    missing = set(rights) - RIGHTS_OF[Role(user.role)]
    if missing:
        named = ", ".join(sorted(missing))
        raise Refused(422, "right-not-held", f"{user.username} has no right to: {named}.")
    if not rights:
        raise Refused(422, "no-right", "Choose at least one right.")
    if not timedelta(0) < lifetime <= timedelta(days=LIFETIME_DAYS_MAX):
        raise Refused(422, "bad-lifetime", f"A token is valid for 1 to {LIFETIME_DAYS_MAX} days.")
    secret = MARK + secrets.token_urlsafe(TOKEN_BYTES)
    now = timezone.now()
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)
        if user.tokens.filter(revoked_at=None, expires_at__gt=now).count() >= TOKENS_MAX:
            raise Refused(
                409,
                "too-many-tokens",
                f"An account has at most {TOKENS_MAX} active tokens: revoke one first.",
            )
        token = ApiToken.objects.create(
            user=user,
            name=name,
            prefix=secret[:PREFIX_LENGTH],
            token_hash=hash_of(secret),
            rights=sorted(right.value for right in rights),
            is_for_all_clusters=clusters is None,
            created_at=now,
            expires_at=now + lifetime,
        )
        token.clusters.set(clusters or ())
    return token, secret


def authenticate(secret: str, address: str) -> ApiToken:
    """The token behind `secret`, its use noted. Raises TokenRefused."""
    token = (
        ApiToken.objects.select_related("user").filter(token_hash=hash_of(secret)).first()
        if secret.startswith(MARK)
        else None
    )
    if token is None:
        raise TokenRefused(
            "This token is unknown. Check that it was copied whole, or make a new one."
        )
    if token.revoked_at is not None:
        raise TokenRefused(f"Token {token.prefix}… was revoked. Make a new one.")
    now = timezone.now()
    if token.expires_at <= now:
        raise TokenRefused(
            f"Token {token.prefix}… expired at {token.expires_at:%Y-%m-%d %H:%M} UTC. "
            "Make a new one."
        )
    if not token.user.is_active:
        raise TokenRefused(f"The account {token.user.username} is disabled, and so are its tokens.")
    if token.used_at is None or token.used_from != address or now - token.used_at >= USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(used_at=now, used_from=address)
    return token


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
