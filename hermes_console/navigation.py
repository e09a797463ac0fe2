"""The table of the console's pages: a new page is a folder in `pages/`, its templates and one row
here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from hermes_console.accounts.models import User
from hermes_console.accounts.rights import RIGHTS_OF, Right, Role
from hermes_console.clusters import CLUSTERS_MAX, Cluster


class Page(NamedTuple):
    """A page in the menu: `urls` is a module with its own `app_name`, mounted at
    `/clusters/<cluster>/<path>`; `start` names its first view.
    """

    title: str
    icon: str
    path: str
    urls: str
    start: str
    right: Right | None = None
    """Only who has it sees the page in the menu; the page itself checks it again."""

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
ADMINISTRATION: Final = (
    Page("Clusters", "cluster", "clusters/", "hermes_console.pages.clusters.urls", "clusters:list"),
    Page(
        "Accounts",
        "user",
        "accounts/users/",
        "hermes_console.pages.accounts.urls",
        "users:list",
        Right.ACCOUNTS_WRITE,
    ),
    Page(
        "Audit",
        "book",
        "audit/",
        "hermes_console.pages.audit.urls",
        "audit:list",
        Right.AUDIT_READ,
    ),
)
"""Pages of the console itself: their addresses begin at the root, whatever the cluster."""


class Switch(NamedTuple):
    """Another cluster in the switcher, and where choosing it leads."""

    cluster: Cluster
    address: str
    is_open: bool


def navigation(request: HttpRequest) -> dict[str, object]:
    """Context for every template: the menu, which of its rows is open, the cluster of its links,
    and the others.
    """
    match = request.resolver_match
    user = getattr(request, "user", None)
    open_page = match.app_name if match else ""
    if not isinstance(user, User):
        return {"pages": (), "administration": (), "open_page": open_page, "menu_cluster": None}
    clusters = list(Cluster.objects.all()[:CLUSTERS_MAX])
    name = match.kwargs.get("cluster") if match else None
    current = next((one for one in clusters if one.name == name), clusters[0] if clusters else None)
    start = next((page.start for page in PAGES if page.app == open_page), PAGES[0].start)
    rights = RIGHTS_OF[Role(user.role)]
    return {
        "pages": PAGES,
        "administration": [one for one in ADMINISTRATION if one.right in {None, *rights}],
        "open_page": open_page,
        "menu_cluster": current,
        "switches": [
            Switch(one, reverse(start, kwargs={"cluster": one.name}), one == current)
            for one in clusters
        ],
    }
