"""One change of a group's offsets, or of a topic's settings, at a time, whichever process makes
it.
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


@contextmanager
def group_lock(cluster_id: int, group: str) -> Iterator[bool]:
    """Whether the lock was got; given back at the end, or by itself after LOCK."""
    with _held(f"{cluster_id}:{group}") as is_held:
        yield is_held


@contextmanager
def settings_lock(cluster_id: int, topic: str) -> Iterator[bool]:
    """As `group_lock`, around looking at a topic's settings and changing them."""
    with _held(f"{cluster_id}:\0settings of {topic}") as is_held:
        yield is_held


@contextmanager
def _held(name: str) -> Iterator[bool]:
    text = name.encode("utf-8", "surrogatepass")
    key, holder = hashlib.sha256(text).hexdigest(), secrets.token_hex(16)
    is_held = _take(key, holder)
    try:
        yield is_held
    finally:
        if is_held:
            GroupLock.objects.filter(key=key, holder=holder).delete()


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
