"""What happens around every view: a request id, no caching, sessions that their owner can see, a
page for refusals.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils.cache import add_never_cache_headers

from hermes_console.accounts.sessions import note_session
from hermes_console.error_pages import refused
from hermes_console.errors import Refused

REQUEST_ID: Final = "X-Request-Id"
REQUEST_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
REQUEST_ID_BYTES: Final = 12

Next = Callable[[HttpRequest], HttpResponse]


class RequestId:
    """Gives each request the id that its caller sent, or a new one; the answer, problems and the
    audit name it.
    """

    def __init__(self, get_response: Next) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.headers.get(REQUEST_ID, "")
        is_usable = REQUEST_ID_PATTERN.fullmatch(sent) is not None
        request_id = sent if is_usable else secrets.token_hex(REQUEST_ID_BYTES)
        request.request_id = request_id  # type: ignore[attr-defined]
        response = self._get_response(request)
        response[REQUEST_ID] = request_id
        return response


class NeverCachePages:
    """Nothing that a signed-in person sees stays in a cache, not after signing out, not in a proxy:
    marks every answer of a view `no-store` unless the view said something else itself.
    """

    def __init__(self, get_response: Next) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if not response.has_header("Cache-Control"):
            add_never_cache_headers(response)
        return response


class RefusalPages:
    """A refusal that no view put on its page (mostly: the audit cannot be written) is a page of its
    own, no failure.
    """

    def __init__(self, get_response: Next) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Django's hook; None leaves other exceptions to Django."""
        return refused(request, error) if isinstance(error, Refused) else None


class NotedSessions:
    """Behind authentication: keeps the table of a person's sessions."""

    def __init__(self, get_response: Next) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        note_session(request)
        return self._get_response(request)
