"""Bounds guessing of passwords: per account and address (of IPv6 the /64), and per address over all
accounts.

An attempt is counted before its password is looked at, so that a thousand at once are no way round.
Who is locked out at one address still gets in from another one, or by a one-time link: nobody can
shut an account from outside. Account names are kept as hashes: people type passwords into that
field.
"""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest
from django.utils import timezone

from hermes_console.accounts.address import origin_of
from hermes_console.accounts.models import SignInFailures

PAIR_FAILURES_MAX: Final = 5
ADDRESS_FAILURES_MAX: Final = 50
WINDOW: Final = timedelta(minutes=15)
LOCKED_FOR: Final = timedelta(minutes=15)
ROWS_PURGED_MAX: Final = 200
ANY_ACCOUNT: Final = ""
ANYWHERE: Final = ""
OWN_FAILURES_MAX: Final = 5
"""Of who is signed in and types their old password, from wherever: a stolen session may travel."""


def begin_attempt(account: str, address: str) -> datetime | None:
    """Count an attempt as failed until `succeed` says otherwise. None: it may go on; else until
    when this account (or every account) is locked for the address.
    """
    now, address = timezone.now(), origin_of(address)
    _purge(now)
    with transaction.atomic():
        locked = [
            _count(name, address, failures_max, now)
            for name, failures_max in (
                (ANY_ACCOUNT, ADDRESS_FAILURES_MAX),
                (key_of(account), PAIR_FAILURES_MAX),
            )
        ]
    return max((until for until in locked if until is not None), default=None)


def succeed(account: str, address: str) -> None:
    """The attempt was no failure: the account starts anew, the address has one failure less."""
    address = origin_of(address)
    SignInFailures.objects.filter(account=key_of(account), address=address).delete()
    SignInFailures.objects.filter(account=ANY_ACCOUNT, address=address).update(
        failure_count=Greatest(F("failure_count") - 1, 0)
    )


def begin_own_check(user_key: int) -> datetime | None:
    """As `begin_attempt`, for the old password that somebody types who is signed in already."""
    now = timezone.now()
    _purge(now)
    with transaction.atomic():
        return _count(_own_key(user_key), ANYWHERE, OWN_FAILURES_MAX, now)


def succeed_own_check(user_key: int) -> None:
    SignInFailures.objects.filter(account=_own_key(user_key), address=ANYWHERE).delete()


def _own_key(user_key: int) -> str:
    """No account is called so."""
    return key_of(f"\0own password of {user_key}")


def is_last(account: str, address: str) -> bool:
    """Whether the attempt that was just counted used up what the pair is allowed."""
    return SignInFailures.objects.filter(
        account=key_of(account), address=origin_of(address), failure_count__gte=PAIR_FAILURES_MAX
    ).exists()


def locked_addresses(account: str) -> list[str]:
    """Where the account is locked out now."""
    rows = SignInFailures.objects.filter(
        account=key_of(account), locked_until__gt=timezone.now()
    ).order_by("address")
    return [row.address for row in rows]


def unlock(account: str) -> int:
    """Forget the account's failures at every address, and the locks of those addresses; how many
    addresses it were.
    """
    rows = SignInFailures.objects.filter(account=key_of(account))
    addresses = list(rows.values_list("address", flat=True))
    SignInFailures.objects.filter(account=ANY_ACCOUNT, address__in=addresses).delete()
    rows.delete()
    return len(addresses)


def key_of(account: str) -> str:
    """Names that differ only in case or in how Unicode writes them are one account's."""
    plain = unicodedata.normalize("NFKC", account).casefold()
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def _count(account: str, address: str, failures_max: int, now: datetime) -> datetime | None:
    row, _ = SignInFailures.objects.select_for_update().get_or_create(
        account=account, address=address, defaults={"began_at": now}
    )
    if row.locked_until is not None and row.locked_until > now:
        return row.locked_until
    if row.locked_until is not None or now - row.began_at >= WINDOW:
        row.failure_count, row.began_at, row.locked_until = 0, now, None
    row.failure_count += 1
    if row.failure_count > failures_max:
        row.locked_until = now + LOCKED_FOR
    row.save()
    return row.locked_until


def _purge(now: datetime) -> None:
    old = SignInFailures.objects.filter(began_at__lt=now - WINDOW - LOCKED_FOR)
    keys = list(old.values_list("pk", flat=True)[:ROWS_PURGED_MAX])
    if keys:
        SignInFailures.objects.filter(pk__in=keys).delete()
