"""The ASGI application: HTTP to Django, `/ws/live` to the live consumer. Where views meet sockets.

`LIVE_VIEWS` is the table of what a socket can subscribe to; each row renders the same templates as
its page.
"""

from __future__ import annotations

import os
from typing import Final

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.sessions import SessionMiddlewareStack
from django.core.asgi import get_asgi_application
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hermes_console.settings")
django_application = get_asgi_application()  # before anything that needs the app registry

from hermes_console.live.consumer import LiveConsumer  # noqa: E402
from hermes_console.live.origin import SameOriginOnly  # noqa: E402
from hermes_console.live.views import LiveView  # noqa: E402
from hermes_console.pages.groups import services as groups  # noqa: E402
from hermes_console.pages.overview import services as overview  # noqa: E402
from hermes_console.pages.topics import services as topics  # noqa: E402

LIVE_VIEWS: Final = {
    "overview": LiveView(overview.render_live),
    "groups": LiveView(groups.render_live_list),
    "group": LiveView(groups.render_live_group),
    "topics": LiveView(topics.render_live_list),
    "topic": LiveView(topics.render_live_topic),
}

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": SameOriginOnly(
            # The consumer reads the account itself, and again while the socket lives.
            SessionMiddlewareStack(
                URLRouter([path("ws/live", LiveConsumer.as_asgi(live_views=LIVE_VIEWS))])
            )
        ),
    }
)
