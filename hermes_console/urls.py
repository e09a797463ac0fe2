"""Every address of the console. Pages come from navigation.PAGES, below their cluster; the API is
`/api/admin/v1`.
"""

from __future__ import annotations

from django.urls import include, path, register_converter

from hermes_console import health, palette, zone
from hermes_console.addresses import home
from hermes_console.names import NameConverter
from hermes_console.navigation import ADMINISTRATION, PAGES

register_converter(NameConverter, "name")

handler400 = "hermes_console.error_pages.bad_request"
handler403 = "hermes_console.error_pages.forbidden"
handler404 = "hermes_console.error_pages.not_found"
handler500 = "hermes_console.error_pages.server_error"

urlpatterns = [
    path("", home, name="home"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("times", zone.times, name="times"),
    path("palette", palette.palette, name="palette"),
    path("accounts/", include("hermes_console.accounts.urls")),
    *(path(page.path, include(page.urls)) for page in ADMINISTRATION),
    path("api/", include("hermes_console.api.urls")),
    *(path(f"clusters/<slug:cluster>/{page.path}", include(page.urls)) for page in PAGES),
]
