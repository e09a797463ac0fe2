"""One change of a group's offsets, or of the settings of a topic or a broker, at a time, whichever
process makes it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from django.db import IntegrityError, transaction
from django.utils import timezone

from hermes_console.connect import CALL_MS_MAX
from hermes_console.undo.models import GroupLock

CALLS_MAX: Final = 12
"""Of one act: what it reads, changes, and reads back."""
LOCK: Final = timedelta(milliseconds=CALLS_MAX * CALL_MS_MAX)
"""As long as all calls of one act can take: a slow cluster must not let in a second one."""


class Lease:
    """True when the lock was got. It ends by itself LOCK after it was taken or held on to."""

    def __init__(self, key: str, holder: str, *, is_held: bool) -> None:
        self._rows = GroupLock.objects.filter(key=key, holder=holder)
        self._is_held = is_held

    def __bool__(self) -> bool:
        return self._is_held

    def hold_on(self) -> bool:
        """Whether it is still ours, then for LOCK from now on. To be asked right before the change
        itself: the looks before it may have taken longer than the lease.
        """
        now = timezone.now()
        found = self._rows.filter(expires_at__gt=now).update(expires_at=now + LOCK)
        self._is_held = self._is_held and bool(found)
        return self._is_held

    def give_back(self) -> None:
        if self._is_held:
            self._rows.delete()


@contextmanager
def group_lock(cluster_id: int, group: str) -> Iterator[Lease]:
    """Given back at the end, or by itself after LOCK."""
    with _held(f"{cluster_id}:{group}") as lease:
        yield lease


@contextmanager
def settings_lock(cluster_id: int, topic: str) -> Iterator[Lease]:
    """As `group_lock`, around looking at a topic's settings and changing them."""
    with _held(f"{cluster_id}:\0settings of {topic}") as lease:
        yield lease


@contextmanager
def broker_settings_lock(cluster_id: int) -> Iterator[Lease]:
    """As `group_lock`, for the settings of all brokers of a cluster: one change may be for all."""
    with _held(f"{cluster_id}:\0settings of brokers") as lease:
        yield lease


@contextmanager
def _held(name: str) -> Iterator[Lease]:
    text = name.encode("utf-8", "surrogatepass")
    key, holder = hashlib.sha256(text).hexdigest(), secrets.token_hex(16)
    lease = Lease(key, holder, is_held=_take(key, holder))
    try:
        yield lease
    finally:
        lease.give_back()


def _take(key: str, holder: str) -> bool:
    now = timezone.now()
    taken = GroupLock.objects.filter(key=key, expires_at__lte=now)
    if taken.update(holder=holder, expires_at=now + LOCK):
        return True
    try:
        with transaction.atomic():
            GroupLock.objects.create(key=key, holder=holder, expires_at=now + LOCK)
    except IntegrityError:
        return False
    return True
