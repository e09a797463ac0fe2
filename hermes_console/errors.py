"""Error pages: what happened, what to do, never a trace. The templates need no context and no
database.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


class ErrorPage(NamedTuple):
    """What a person reads for a status."""

    title: str
    text: str


ERROR_PAGES: Final = {
    400: ErrorPage(
        "This request makes no sense",
        "The browser sent something the console cannot read. Go back and try again.",
    ),
    403: ErrorPage(
        "Not allowed", "Your account has no right to this. Ask an administrator of the console."
    ),
    404: ErrorPage(
        "Nothing here", "There is no page at this address. It may have been renamed or deleted."
    ),
    405: ErrorPage("Not this way", "This address does not answer that method."),
    500: ErrorPage(
        "The console failed",
        "The error was logged. Reload; if it stays, look into the console's log.",
    ),
}
CSRF = ErrorPage(
    "The form is too old",
    "It was opened before you last signed in or out, or your browser refuses cookies. "
    "Go back, reload the page and send it again.",
)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _render(request, 400)


@login_not_required
def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _render(request, 403)


@login_not_required
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _render(request, 404)


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    return _render(request, 500)


@login_not_required
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return render(request, "errors/error.html", {"status": 403, "page": CSRF}, status=403)


def _render(request: HttpRequest, status: int) -> HttpResponse:
    return render(
        request, "errors/error.html", {"status": status, "page": ERROR_PAGES[status]}, status=status
    )
