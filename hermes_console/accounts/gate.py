"""A page for whoever has a right: the refusal is recorded and answered 403."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import require

View = Callable[..., HttpResponseBase]


def needs(right: Right) -> Callable[[View], View]:
    """Decorates a page's view; what acts on POST is checked again by its operation."""

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            require(actor_of(request), right, cluster=None, target=request.path)
            return view(request, *args, **kwargs)

        return checked

    return decorate
