"""Error pages: what happened, what to do, never a trace; below `/api/` the same as problem+json."""

from __future__ import annotations

from typing import Final, NamedTuple

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from hermes_console.accounts.actor import NotAllowed
from hermes_console.api.problems import problem_answer
from hermes_console.errors import Refused

API_PREFIX: Final = "/api/"


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
        "Not allowed", "Your account has no right to this. Ask an operator of the console."
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
REFUSED_TITLE: Final = "Nothing was done"
CSRF = ErrorPage(
    "The form is too old",
    "It was opened before you last signed in or out, or your browser refuses cookies. "
    "Go back, reload the page and send it again.",
)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 400)


@login_not_required
def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 403, str(exception) if isinstance(exception, NotAllowed) else "")


@login_not_required
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 404)


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, 500)


@login_not_required
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    if request.path.startswith(API_PREFIX):
        return problem_answer(request, 403, CSRF.text)
    return _page(request, 403, CSRF)


def refused(request: HttpRequest, refusal: Refused) -> HttpResponse:
    """The refusal's own words, with its status."""
    return _page(request, refusal.status, ErrorPage(REFUSED_TITLE, refusal.detail))


def _answer(request: HttpRequest, status: int, text: str = "") -> HttpResponse:
    page = ERROR_PAGES[status]
    page = page._replace(text=text or page.text)
    if request.path.startswith(API_PREFIX):
        return problem_answer(request, status, page.text)
    return _page(request, status, page)


def _page(request: HttpRequest, status: int, page: ErrorPage) -> HttpResponse:
    """With the menu for whoever is signed in; the page of a failure of ours needs nothing."""
    is_signed_in = status != 500 and hasattr(request, "user") and request.user.is_authenticated
    context = {
        "status": status,
        "page": page,
        "request_id": getattr(request, "request_id", ""),
    }
    template = "errors/inside.html" if is_signed_in else "errors/error.html"
    return render(request, template, context, status=status)
