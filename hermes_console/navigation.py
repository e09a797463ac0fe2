"""The table of the console's pages: a new page is a folder in `pages/`, its templates and one row
here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from django.http import HttpRequest

from hermes_console.clusters import Cluster, default_cluster


class Page(NamedTuple):
    """A page in the menu: `urls` is a module with its own `app_name`, mounted at
    `/clusters/<cluster>/<path>`; `start` names its first view.
    """

    title: str
    icon: str
    path: str
    urls: str
    start: str

    @property
    def app(self) -> str:
        """The `app_name` of its urls."""
        return self.start.partition(":")[0]


PAGES: Final = (
    Page("Overview", "gauge", "", "hermes_console.pages.overview.urls", "overview:overview"),
    Page("Brokers", "broker", "brokers/", "hermes_console.pages.brokers.urls", "brokers:list"),
    Page("Topics", "topics", "topics/", "hermes_console.pages.topics.urls", "topics:list"),
    Page(
        "Messages", "messages", "messages/", "hermes_console.pages.messages.urls", "messages:topics"
    ),
    Page("Groups", "groups", "groups/", "hermes_console.pages.groups.urls", "groups:list"),
)


def navigation(request: HttpRequest) -> dict[str, object]:
    """Context for every template: the menu, which of its rows is open, and the cluster of its
    links.
    """
    match = request.resolver_match
    is_signed_in = hasattr(request, "user") and request.user.is_authenticated
    return {
        "pages": PAGES,
        "open_page": match.app_name if match else "",
        "menu_cluster": _menu_cluster(match.kwargs.get("cluster") if match else None)
        if is_signed_in
        else None,
    }


def _menu_cluster(name: str | None) -> Cluster | None:
    """The cluster that the menu's links lead to: the open page's, else the default one."""
    return (Cluster.objects.filter(name=name).first() if name else None) or default_cluster()
