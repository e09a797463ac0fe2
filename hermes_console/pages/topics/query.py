"""What the topics list is asked for: filter, order, page. Pure; anything unknown falls back to the
default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from hermes_console.operations.topics_catalogue import Show, Sort

PAGE_SIZE: Final = 50
SEARCH_LENGTH_MAX: Final = 255
SHOW_CHOICES: Final = (
    (Show.OWN, "Your topics"),
    (Show.ATTENTION, "Needs attention"),
    (Show.INTERNAL, "Internal topics"),
    (Show.ALL, "All topics"),
)


@dataclass(frozen=True, slots=True)
class TopicsQuery:
    """`page` counts from 1."""

    search: str = ""
    show: Show = Show.OWN
    sort: Sort = Sort.NAME
    page: int = 1

    @property
    def is_filtered(self) -> bool:
        return bool(self.search) or self.show is not Show.OWN

    def address(self, *, sort: Sort | None = None, page: int = 1) -> str:
        """`?…` for the same list in another order or at another page; defaults are left out."""
        fields = {
            "q": self.search,
            "show": self.show.value,
            "sort": (sort or self.sort).value,
            "page": page,
        }
        defaults = {"q": "", "show": Show.OWN.value, "sort": Sort.NAME.value, "page": 1}
        given = {key: value for key, value in fields.items() if value != defaults[key]}
        return f"?{urlencode(given)}" if given else "?"


def read_query(parameters: Mapping[str, str]) -> TopicsQuery:
    """The query that an address or a live subscription asks for."""
    show, sort = parameters.get("show", ""), parameters.get("sort", "")
    page = parameters.get("page", "")
    return TopicsQuery(
        search=parameters.get("q", "").strip()[:SEARCH_LENGTH_MAX],
        show=Show(show) if show in set(Show) else Show.OWN,
        sort=Sort(sort) if sort in set(Sort) else Sort.NAME,
        page=int(page) if page.isdecimal() and len(page) < 10 and int(page) > 0 else 1,
    )
