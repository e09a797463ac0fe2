"""What the audit page is asked for in its address. Pure; nonsense is left out, and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final
from urllib.parse import urlencode

from hermes_console.audit.models import Outcome
from hermes_console.operations.audit import AuditFilter
from hermes_console.times import BadTime, read_moment

TEXT_LENGTH_MAX: Final = 255
NUMBER_LENGTH_MAX: Final = 18
FIELDS: Final = ("actor", "action", "cluster", "outcome", "q", "since", "until")


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """`given` are the fields as they were typed; `before` is the row that the page begins below."""

    filter: AuditFilter
    given: Mapping[str, str]
    before: int | None
    problems: tuple[str, ...]

    def address(self, before: int | None = None) -> str:
        """The query string of the same filter."""
        fields = {name: value for name, value in self.given.items() if value}
        if before is not None:
            fields["before"] = str(before)
        return f"?{urlencode(fields)}" if fields else "?"


def read_query(parameters: Mapping[str, str], zone: tzinfo) -> AuditQuery:
    """Times without a zone are in `zone`."""
    given = {
        name: parameters.get(name, "").strip()[:TEXT_LENGTH_MAX].replace("\0", "")
        for name in FIELDS
    }
    problems: list[str] = []
    times: dict[str, datetime | None] = {}
    for name in ("since", "until"):
        try:
            times[name] = read_moment(given[name], zone) if given[name] else None
        except BadTime as error:
            times[name] = None
            problems.append(f"“{given[name]}” was left out. {error}")
    outcome = given["outcome"] if given["outcome"] in Outcome.values else ""
    before = parameters.get("before", "")
    is_number = before.isascii() and before.isdecimal() and len(before) <= NUMBER_LENGTH_MAX
    wanted = AuditFilter(
        actor=given["actor"],
        action=given["action"],
        cluster=given["cluster"],
        outcome=outcome,
        text=given["q"],
        since=times["since"],
        until=times["until"],
    )
    return AuditQuery(wanted, given, int(before) if is_number else None, tuple(problems))
