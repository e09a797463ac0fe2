"""Whether the session behind a socket still stands: not signed out, not expired, account open,
password unchanged.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.utils.crypto import constant_time_compare

from hermes_console.accounts.models import User


def is_session_alive(scope: dict[str, Any]) -> bool:
    """Reads the session store and the account anew: what the scope remembers may be hours old."""
    key = getattr(scope.get("session"), "session_key", None)
    if not key:
        return False
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key=key)
    user_key, session_hash = store.get(SESSION_KEY), store.get(HASH_SESSION_KEY, "")
    if user_key is None:
        return False
    user = User.objects.filter(pk=user_key, is_active=True).first()
    return user is not None and constant_time_compare(session_hash, user.get_session_auth_hash())
