"""A bound on how often one caller may ask: by account, before that by address. Fixed windows, per
process.
"""

from __future__ import annotations

import time
from typing import Any, Final

from django.core.cache import cache
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from hermes_console.accounts.address import address_of

WINDOW_S: Final = 10
REQUESTS_MAX: Final = 1_000
"""Per window: 100 a second. More than any script needs, less than the console can bear."""


class PerCaller(BaseThrottle):
    """429 with Retry-After when a caller asks more often."""

    def allow_request(self, request: Request, view: Any) -> bool:
        caller = request.user.pk if request.user.is_authenticated else address_of(request)
        window = int(time.time()) // WINDOW_S
        key = f"api-rate:{caller}:{window}"
        cache.add(key, 0, WINDOW_S * 2)
        try:
            return cache.incr(key) <= REQUESTS_MAX
        except ValueError:  # it was evicted in between
            return True

    def wait(self) -> float:
        return WINDOW_S - time.time() % WINDOW_S
