"""Forms of settings: what was typed into their fields, kept when a form comes back with a problem.
Pure.

A field is named `value.<setting>`; `reset.<setting>` takes an override away. Only what differs from
the value that holds counts as wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hermes_console.operations.configs import VALUE_LENGTH_MAX, Setting

VALUE: Final = "value."
RESET: Final = "reset."


@dataclass(frozen=True, slots=True)
class SettingField:
    """A setting with what stands in its field, and what is wrong with it ("" when nothing is)."""

    setting: Setting
    text: str
    is_reset: bool
    problem: str

    @property
    def field(self) -> str:
        return f"{VALUE}{self.setting.name}"

    @property
    def reset_field(self) -> str:
        return f"{RESET}{self.setting.name}"


def fields_of(
    settings: Iterable[Setting],
    posted: Mapping[str, str] | None = None,
    *,
    problem: str = "",
    is_new: bool = False,
) -> list[SettingField]:
    """The fields of a form: as posted, else as the settings are (`is_new`: empty). `problem` is the
    cluster's refusal; it stands at the settings that it names.
    """
    return [
        SettingField(
            setting=one,
            text=(posted or {}).get(f"{VALUE}{one.name}", "" if is_new else one.value or ""),
            is_reset=f"{RESET}{one.name}" in (posted or {}),
            problem=problem if _names(problem, one.name) else "",
        )
        for one in settings
    ]


def wanted_values(
    settings: Iterable[Setting], posted: Mapping[str, str], *, is_new: bool = False
) -> dict[str, str | None]:
    """Setting → the new value, None where an override goes. Settings that cannot be changed and
    fields that were left as they were are not in it.
    """
    wanted: dict[str, str | None] = {}
    for one in settings:
        text = posted.get(f"{VALUE}{one.name}")
        if f"{RESET}{one.name}" in posted and one.is_set_here:
            wanted[one.name] = None
        elif text is not None and not one.is_read_only:
            text = text.strip()[:VALUE_LENGTH_MAX]
            is_untouched = not text if is_new or one.value is None else text == one.value
            if not is_untouched:
                wanted[one.name] = text
    return wanted


def _names(problem: str, name: str) -> bool:
    """Whether the sentence names this setting and not one whose name only begins alike."""
    start = problem.find(name)
    while start >= 0:
        before = problem[start - 1 : start]
        after = problem[start + len(name) : start + len(name) + 2]
        is_longer = (
            before.isalnum()
            or before == "."
            or after[:1].isalnum()
            or (after[:1] == "." and after[1:].isalnum())
        )
        if not is_longer:
            return True
        start = problem.find(name, start + 1)
    return False
