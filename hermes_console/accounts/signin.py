"""Signing in by password or link, recorded, with a bound on guessing. Only pages call it."""

from __future__ import annotations

from datetime import datetime

from django.db import DatabaseError
from django.http import HttpRequest
from django.utils import timezone

from hermes_console import words
from hermes_console.accounts import lockout
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.address import address_of
from hermes_console.accounts.models import User
from hermes_console.accounts.rights import RIGHTS_OF, Role
from hermes_console.accounts.sessions import begin_session
from hermes_console.audit.models import Outcome
from hermes_console.audit.record import record
from hermes_console.errors import Refused

BY_LINK = "signed_in_by_link"
UNKNOWN_NAME = "(no such account)"


def try_begin(request: HttpRequest, name: str) -> datetime | None:
    """None when a password may be tried for `name`; else until when it may not. Raises Refused
    when the attempt cannot be counted: uncounted ones would be guesses without a bound.
    """
    try:
        return lockout.begin_attempt(name, address_of(request))
    except DatabaseError as error:
        raise Refused(
            503,
            "sign-in-unavailable",
            "Nobody can sign in now: the console's database cannot be written. Check the database "
            "and its disk, then try again.",
        ) from error


def try_begin_own_check(user: User) -> datetime | None:
    """None when the own old password may be tried; else until when it may not. Raises Refused when
    the attempt cannot be counted.
    """
    try:
        return lockout.begin_own_check(user.pk)
    except DatabaseError as error:
        raise Refused(
            503,
            "password-unavailable",
            "The password cannot be changed now: the console's database cannot be written. Check "
            "the database and its disk, then try again.",
        ) from error


def end_own_check(request: HttpRequest, user: User, *, is_right: bool) -> None:
    """The count starts anew after the right one; a wrong one is recorded."""
    if is_right:
        lockout.succeed_own_check(user.pk)
        return
    record(
        _actor(request, user, user.username),
        "password.change",
        outcome=Outcome.REFUSED,
        target=user.username,
        reason="wrong old password",
    )


def own_locked_sentence(until: datetime) -> str:
    """What somebody reads who guessed at their own old password too often."""
    left_s = max(1.0, (until - timezone.now()).total_seconds())
    return (
        f"The old password was wrong {lockout.OWN_FAILURES_MAX} times. Try again in "
        f"{words.duration(left_s)} (at {until:%H:%M} UTC), or ask an operator for a one-time "
        "sign-in link: whoever comes by it chooses a password without the old one."
    )


def note_failure(request: HttpRequest, name: str) -> None:
    """A wrong password; the one that locks says so. Names of accounts that do not exist are not
    kept: they may be passwords.
    """
    user = User.objects.filter(username=name).first()
    shown = user.username if user is not None else UNKNOWN_NAME
    is_last = lockout.is_last(name, address_of(request))
    record(
        _actor(request, user, shown),
        "sign-in.lock" if is_last else "sign-in",
        outcome=Outcome.REFUSED,
        target=shown,
        reason=(
            f"wrong password, the last of {lockout.PAIR_FAILURES_MAX}: locked at this address"
            if is_last
            else "wrong name or password, or the account is disabled"
        ),
    )


def complete(request: HttpRequest, user: User, *, by_link: bool = False) -> None:
    """Begin the session, once it is recorded. Raises AuditUnavailable: then nobody is signed in."""
    record(
        _actor(request, user, user.username),
        "sign-in",
        outcome=Outcome.DONE,
        target=user.username,
        after={"by": "one-time link" if by_link else "password"},
    )
    lockout.succeed(user.username, address_of(request))
    begin_session(request, user)
    if by_link:
        request.session[BY_LINK] = True


def locked_sentence(until: datetime) -> str:
    """What somebody reads who is locked out."""
    left_s = max(1.0, (until - timezone.now()).total_seconds())
    return (
        "Too many failed attempts from your address. Try again in "
        f"{words.duration(left_s)} (at {until:%H:%M} UTC), or ask an operator to unlock the "
        "account or for a one-time sign-in link."
    )


def _actor(request: HttpRequest, user: User | None, name: str) -> Actor:
    role = Role.VIEWER if user is None else Role(user.role)
    return Actor(
        name=name,
        role=role,
        rights=RIGHTS_OF[role],
        via="session",
        address=address_of(request),
        request_id=getattr(request, "request_id", ""),
        user_id=None if user is None else user.pk,
    )
