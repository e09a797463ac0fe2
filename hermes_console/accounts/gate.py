"""A page, or a page's POST, for whoever has a right: the refusal is recorded and answered 403."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
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


def needs_to_post(right: Right) -> Callable[[View], View]:
    """Decorates a cluster's page that everybody may look at. Who has no right to its POST is told
    so before anything of it is read: not that a field is wrong, nor that the cluster is away.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(
            request: HttpRequest, *args: Any, cluster: str, **kwargs: Any
        ) -> HttpResponseBase:
            if request.method == "POST":
                found = requested_cluster(cluster)
                require(actor_of(request), right, cluster=found, target=request.path)
            return view(request, *args, cluster=cluster, **kwargs)

        return checked

    return decorate
