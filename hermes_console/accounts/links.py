"""One-time sign-in links: made on the machine by whoever may read the data directory, used once in
a browser.

The token is 32 random bytes signed with the installation's key; the database keeps only its hash.
Opening the link changes nothing (mail scanners and previews open links): the button on its page
uses it up.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Final

from django.core import signing
from django.db import transaction
from django.utils import timezone

from hermes_console.accounts.actor import system_actor
from hermes_console.accounts.models import SignInLink, User
from hermes_console.accounts.rights import Role
from hermes_console.audit.models import Outcome
from hermes_console.audit.record import record

FIRST_ADMINISTRATOR: Final = "admin"
LIFETIME: Final = timedelta(minutes=15)
INVITATION_LIFETIME: Final = timedelta(hours=24)
"""Of a link that an operator hands to somebody else."""
TOKEN_BYTES: Final = 32
LOCAL_ACTOR: Final = "console"
SALT: Final = "hermes.sign-in-link"


def first_administrator() -> User:
    """The operator that links sign in: made without a password when there is no open one; that is
    recorded. Raises AuditUnavailable.
    """
    user = User.objects.filter(role=Role.OPERATOR, is_active=True).order_by("pk").first()
    if user is not None:
        return user
    user = User(username=_free_name(), role=Role.OPERATOR)
    user.set_unusable_password()
    _record("account.create", user, {"role": user.role})
    user.save()
    return user


def create_local_link(user: User) -> str:
    """As `create_link`, by whoever runs the console on its machine; recorded. Raises
    AuditUnavailable.
    """
    _record(
        "account.sign-in-link", user, {"valid_for_minutes": int(LIFETIME.total_seconds() // 60)}
    )
    return create_link(user)


def _record(action: str, user: User, after: dict[str, object]) -> None:
    actor = system_actor(LOCAL_ACTOR)
    record(actor, action, outcome=Outcome.DONE, target=user.username, after=after)


def _free_name() -> str:
    """`admin`, or `admin-2`… when somebody else has that name."""
    taken = set(User.objects.values_list("username", flat=True))
    names = (
        FIRST_ADMINISTRATOR if n == 1 else f"{FIRST_ADMINISTRATOR}-{n}"
        for n in range(1, len(taken) + 2)
    )
    return next(name for name in names if name not in taken)


def create_link(user: User, lifetime: timedelta = LIFETIME) -> str:
    """A new token for `user`, good for `lifetime` and one use; expired rows go on this occasion."""
    now = timezone.now()
    SignInLink.objects.filter(expires_at__lt=now).delete()
    token = signing.TimestampSigner(salt=SALT).sign(secrets.token_urlsafe(TOKEN_BYTES))
    SignInLink.objects.create(token_hash=_hash(token), user=user, expires_at=now + lifetime)
    return token


def owner_of(token: str) -> User | None:
    """Whom `use_link` would sign in now; changes nothing."""
    if not _is_signed(token):
        return None
    link = (
        SignInLink.objects.select_related("user")
        .filter(
            token_hash=_hash(token),
            used_at=None,
            expires_at__gt=timezone.now(),
            user__is_active=True,
        )
        .first()
    )
    return None if link is None else link.user


def use_link(token: str) -> User | None:
    """The link's user, exactly once; None for a forged, used, expired or unknown one or a closed
    account.
    """
    if not _is_signed(token):
        return None
    now = timezone.now()
    with transaction.atomic():
        is_mine = SignInLink.objects.filter(
            token_hash=_hash(token), used_at=None, expires_at__gt=now, user__is_active=True
        ).update(used_at=now)
        if is_mine != 1:
            return None
        return SignInLink.objects.select_related("user").get(token_hash=_hash(token)).user


def _is_signed(token: str) -> bool:
    try:
        signing.TimestampSigner(salt=SALT).unsign(token)
    except signing.BadSignature:
        return False
    return True


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
