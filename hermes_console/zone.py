"""In which time zone, and how, a person reads times: two cookies, one middleware, one page.

Cookies rather than columns: a browser knows where it is, and the scripts that write live times
follow them too. `hermes_zone` is `UTC`, a name such as `Europe/Berlin`, or `browser~` and the name
that the browser told; `hermes_times` is `absolute` or `relative`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

ZONE_COOKIE: Final = "hermes_zone"
TIMES_COOKIE: Final = "hermes_times"
COOKIE_S: Final = 365 * 86_400
UTC_NAME: Final = "UTC"
BROWSER: Final = "browser"
MODES: Final = (
    ("absolute", "Date and time", "2026-03-01 14:03:12"),
    ("relative", "How long ago", "3 min ago; the exact time shows when you point at it"),
)
NAME: Final = re.compile(r"[A-Za-z0-9_+\-]{1,32}(?:/[A-Za-z0-9_+\-]{1,32}){0,2}")


@cache
def zone_names() -> tuple[str, ...]:
    """Every zone that can be chosen, UTC first."""
    places = {name for name in available_timezones() if "/" in name and name[:4] != "Etc/"}
    return (UTC_NAME, *sorted(places))


def read_zone(cookie: str) -> str:
    """The zone's name behind a cookie; UTC for nonsense."""
    name = cookie.removeprefix(f"{BROWSER}~")
    is_known = NAME.fullmatch(name) is not None and name in zone_names()
    return name if is_known else UTC_NAME


def read_mode(cookie: str) -> str:
    """absolute or relative."""
    return cookie if cookie in {mode for mode, _, _ in MODES} else MODES[0][0]


class PageTimeZone:
    """Middleware: times of the answer are in the zone of the cookie."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        name = read_zone(request.COOKIES.get(ZONE_COOKIE, ""))
        with timezone.override(ZoneInfo(name)):
            return self._get_response(request)


def times_context(request: HttpRequest) -> dict[str, object]:
    """Context of every template: the zone that its times are in."""
    cookie = request.COOKIES.get(ZONE_COOKIE, "")
    return {
        "zone_name": read_zone(cookie),
        "zone_is_browsers": cookie.startswith(f"{BROWSER}~"),
        "times_mode": read_mode(request.COOKIES.get(TIMES_COOKIE, "")),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def times(request: HttpRequest) -> HttpResponse:
    """GET shows the choices, POST stores them in cookies and goes back to where one came from."""
    address = request.POST.get("next") or request.GET.get("next") or "/"
    if not url_has_allowed_host_and_scheme(address, allowed_hosts=None):
        address = "/"
    if request.method != "POST":
        context = {"zones": zone_names(), "modes": MODES, "next": address}
        return render(request, "layout/times_page.html", context)
    wanted = request.POST.get("zone", UTC_NAME)
    name = read_zone(wanted)
    zone = f"{BROWSER}~{name}" if wanted.startswith(f"{BROWSER}~") else name
    answer = redirect(address)
    for key, value in (
        (ZONE_COOKIE, zone),
        (TIMES_COOKIE, read_mode(request.POST.get("times", ""))),
    ):
        answer.set_cookie(
            key, value, max_age=COOKIE_S, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE
        )
    return answer
