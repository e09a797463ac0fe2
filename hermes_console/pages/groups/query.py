"""What the groups list is asked for: filter, order, page. Pure; anything unknown falls back to the
default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from hermes_console.samples.snapshot import NEEDS_ATTENTION, GroupSummary, Verdict, by_attention

PAGE_SIZE: Final = 50
SEARCH_LENGTH_MAX: Final = 255
ATTENTION: Final = "attention"
SHOW_CHOICES: Final = (
    ("", "All verdicts"),
    (ATTENTION, "Needs attention"),
    *((verdict.value, verdict.value.replace("-", " ").capitalize()) for verdict in Verdict),
)
SORTS: Final = ("attention", "name", "lag", "behind")


@dataclass(frozen=True, slots=True)
class GroupsQuery:
    """`show` is "", "attention" or a verdict; `page` counts from 1."""

    search: str = ""
    show: str = ""
    sort: str = SORTS[0]
    page: int = 1

    def address(self, *, sort: str | None = None, page: int = 1) -> str:
        """`?…` for the same list in another order or at another page; defaults are left out."""
        fields = {"q": self.search, "show": self.show, "sort": sort or self.sort, "page": page}
        defaults = {"q": "", "show": "", "sort": SORTS[0], "page": 1}
        given = {key: value for key, value in fields.items() if value != defaults[key]}
        return f"?{urlencode(given)}" if given else "?"


def read_query(parameters: Mapping[str, str]) -> GroupsQuery:
    """The query that an address or a live subscription asks for."""
    show, sort = parameters.get("show", ""), parameters.get("sort", "")
    page = parameters.get("page", "")
    return GroupsQuery(
        search=parameters.get("q", "").strip()[:SEARCH_LENGTH_MAX],
        show=show if show in {key for key, _ in SHOW_CHOICES} else "",
        sort=sort if sort in SORTS else SORTS[0],
        page=int(page) if page.isdecimal() and len(page) < 10 and int(page) > 0 else 1,
    )


def select_groups(groups: Sequence[GroupSummary], query: GroupsQuery) -> list[GroupSummary]:
    """All groups that fit, in order."""
    wanted = query.search.casefold()
    fitting = tuple(
        group
        for group in groups
        if (not wanted or wanted in group.name.casefold()) and _is_shown(group, query.show)
    )
    if query.sort == "name":
        return sorted(fitting, key=lambda group: group.name)
    if query.sort == "lag":
        return sorted(
            fitting, key=lambda group: -1 if group.lag is None else group.lag, reverse=True
        )
    if query.sort == "behind":
        return sorted(fitting, key=lambda group: group.lag_seconds or 0.0, reverse=True)
    return by_attention(fitting)


def _is_shown(group: GroupSummary, show: str) -> bool:
    if show == ATTENTION:
        return group.verdict in NEEDS_ATTENTION
    return not show or group.verdict.value == show
