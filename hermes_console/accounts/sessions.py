"""The sessions of a person: which browsers are signed in, and how to end them.

Django's session store stays the truth; a `UserSession` row only describes one. Whoever ends a
session deletes both: the next request of that browser is signed out, its live socket within 15 s.
"""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import login
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils import timezone

from hermes_console.accounts.address import address_of
from hermes_console.accounts.models import User, UserSession

BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
SEEN_EVERY: Final = timedelta(seconds=60)
"""`seen_at` is kept to this: not every request writes."""
BROWSER_LENGTH_MAX: Final = 200


def begin_session(request: HttpRequest, user: User) -> None:
    """Sign `user` in under a new session key; sessions that have expired go on this occasion."""
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
    standing = Session.objects.values("session_key")
    user.sign_ins.exclude(session_key__in=standing).delete()
    login(request, user, backend=BACKEND)
    note_session(request)


def note_session(request: HttpRequest) -> None:
    """Enter the request's session, or that it was seen; nothing for whoever is not signed in."""
    user = request.user
    if not isinstance(user, User):
        return
    key = request.session.session_key
    if not key:
        return
    now = timezone.now()
    values = {"user": user, "address": address_of(request), "browser": _browser(request)}
    row = UserSession.objects.filter(session_key=key).first()
    if row is None:
        try:
            with transaction.atomic():
                UserSession.objects.create(session_key=key, began_at=now, seen_at=now, **values)
        except IntegrityError:
            return  # another request of the same browser was first
    elif (
        row.user_id != user.pk
        or row.address != values["address"]
        or (now - row.seen_at >= SEEN_EVERY)
    ):
        UserSession.objects.filter(pk=row.pk).update(seen_at=now, **values)


def sessions_of(user: User) -> list[UserSession]:
    """The sessions that still stand, last seen first."""
    rows = list(user.sign_ins.all())
    standing = set(
        Session.objects.filter(
            session_key__in=[row.session_key for row in rows], expire_date__gt=timezone.now()
        ).values_list("session_key", flat=True)
    )
    return [row for row in rows if row.session_key in standing]


def end_session(row: UserSession) -> None:
    _store(row.session_key).delete(row.session_key)
    row.delete()


def end_sessions(user: User, *, but: str | None = None) -> int:
    """Ends all sessions of `user`, but the one with key `but`; how many it were."""
    rows = [row for row in user.sign_ins.all() if row.session_key != but]
    for row in rows:
        end_session(row)
    return len(rows)


def _store(key: str) -> Any:
    return import_module(settings.SESSION_ENGINE).SessionStore(session_key=key)


def _browser(request: HttpRequest) -> str:
    return request.headers.get("User-Agent", "").replace("\0", "")[:BROWSER_LENGTH_MAX]
