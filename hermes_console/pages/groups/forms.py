"""What the forms of groups were filled in with: which partitions, and where to go. Pure.

A form is kept as it was typed, so that a refusal loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Final, Protocol

from hermes_console import words
from hermes_console.operations.groups_plan import (
    BadTarget,
    Place,
    Selection,
    Target,
    read_partitions,
    read_target,
)

TOPICS_LISTED_MAX: Final = 200
TEXT_LENGTH_MAX: Final = 4_096
PLACE_WORDS: Final = (
    (Place.EARLIEST, "Earliest", "read everything that is still stored"),
    (Place.LATEST, "Latest", "skip everything that is stored now"),
    (Place.TIME, "A time", "the first record at or after it"),
    (Place.OFFSET, "An offset", "the same in every chosen partition"),
    (Place.SHIFT, "A shift", "records forward, or back below 0"),
)
WITH_VALUE: Final = frozenset({Place.TIME, Place.OFFSET, Place.SHIFT})


class Fields(Protocol):
    """A query or a posted form, as Django's QueryDict."""

    def get(self, name: str, default: str, /) -> str: ...
    def getlist(self, name: str, /) -> Sequence[str]: ...
    def __contains__(self, name: str, /) -> bool: ...
    def keys(self) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class OffsetsForm:
    """`is_filled` is False when the form is only opened. `errors` by field; `values` by place."""

    is_filled: bool
    name: str = ""
    to: str = Place.EARLIEST
    values: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    others: str = ""
    token: str = ""
    selection: Selection = field(default_factory=dict)
    target: Target | None = None
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return self.is_filled and not self.errors


def read_form(fields: Fields, zone: tzinfo = UTC, *, named: bool = False) -> OffsetsForm:
    """The form of a query or a post; `named` when it has a field for the group's name."""
    to = fields.get("to", "")
    texts = {str(place): fields.get(place, "").strip()[:40] for place in WITH_VALUE}
    chosen = [name for name in fields.getlist("topic") if name][:TOPICS_LISTED_MAX]
    topics = {name: fields.get(f"partitions:{name}", "").strip() for name in chosen}
    others = fields.get("others", "")[:TEXT_LENGTH_MAX]
    if not to:
        return OffsetsForm(is_filled=False, topics=topics, name=fields.get("name", ""))
    errors: dict[str, str] = {}
    target = None
    try:
        target = read_target(to, texts.get(to, ""), zone)
    except BadTarget as error:
        errors["to"] = str(error)
    problem = _beside_the_target(to, texts)
    if problem:
        errors["to"] = problem
    selection: dict[str, tuple[int, ...] | None] = dict.fromkeys(re.split(r"[\s,]+", others))
    selection.pop("", None)
    for name, partitions in topics.items():
        try:
            selection[name] = read_partitions(partitions)
        except BadTarget as error:
            errors["topics"] = f"{name}: {error}"
    for name in _partitions_of_others(fields, topics):
        errors["topics"] = (
            f"Partitions of {name} are filled in, but {name} is not chosen: choose it, or clear "
            "them."
        )
    if not selection and not errors:
        errors["topics"] = "Choose at least one topic."
    name = fields.get("name", "")
    if named and not name.strip():
        errors["name"] = "Give the group a name."
    return OffsetsForm(
        is_filled=True,
        name=name,
        to=to,
        values=texts,
        topics=topics,
        others=others,
        token=fields.get("token", ""),
        selection=selection,
        target=target,
        errors=errors,
    )


def _beside_the_target(to: str, texts: Mapping[str, str]) -> str:
    """Why what is filled in contradicts the choice, "" when it does not."""
    titles = {str(place): title.lower() for place, title, _ in PLACE_WORDS}
    others = [titles[place] for place, text in sorted(texts.items()) if text and place != to]
    if not others or to not in titles:
        return ""
    return (
        f"You chose {titles[to]}, but filled in {words.listed(others)} too: clear that, or choose "
        "it."
    )


def _partitions_of_others(fields: Fields, topics: Mapping[str, str]) -> list[str]:
    """Topics that are not chosen, but have partitions."""
    named = [key.partition(":")[2] for key in fields.keys() if key.startswith("partitions:")]  # noqa: SIM118  a protocol, no dict
    return [
        name
        for name in named
        if name not in topics and fields.get(f"partitions:{name}", "").strip()
    ]
