"""Nothing that a signed-in person sees stays in a cache: not after signing out, not in a proxy."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.cache import add_never_cache_headers


class NeverCachePages:
    """Marks every answer of a view `no-store` unless the view said something else itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if not response.has_header("Cache-Control"):
            add_never_cache_headers(response)
        return response
