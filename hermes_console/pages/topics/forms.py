"""What was typed into the forms of topics, read into values or a problem per field. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Final

from hermes_console import words
from hermes_console.operations.topics import BROKER_DECIDES, PARTITIONS_MAX, name_problem
from hermes_console.times import BadTime, read_time

DIGITS_MAX: Final = 19
OFFSETS_LENGTH_MAX: Final = 400_000
FIELDS_OF_MODE: Final[Mapping[str, tuple[str, ...]]] = {
    "all": (),
    "time": ("time",),
    "offset": ("partition", "offset"),
}
MODES: Final = tuple(FIELDS_OF_MODE)
MODE_WORDS: Final[Mapping[str, str]] = {
    "all": "all records",
    "time": "those before a time",
    "offset": "those before an offset",
}


@dataclass(slots=True)
class NewTopicForm:
    """`problems` are sentences by the name of their field."""

    name: str = ""
    partitions: str = ""
    replicas: str = ""
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        return int(self.partitions) if self.partitions else BROKER_DECIDES

    @property
    def replication_factor(self) -> int:
        return int(self.replicas) if self.replicas else BROKER_DECIDES


@dataclass(slots=True)
class CutForm:
    """Which records to delete: all, those before a time, those before an offset of a partition."""

    mode: str = MODES[0]
    time: str = ""
    partition: str = ""
    offset: str = ""
    problems: dict[str, str] = field(default_factory=dict)

    def at_ms(self, zone: tzinfo) -> int:
        """The time in milliseconds since 1970. Only for a form without problems."""
        return read_time(self.time, zone)


def read_new_topic(posted: Mapping[str, str]) -> NewTopicForm:
    form = NewTopicForm(
        name=posted.get("name", "").strip(),
        partitions=posted.get("partitions", "").strip(),
        replicas=posted.get("replicas", "").strip(),
    )
    problem = name_problem(form.name)
    if problem:
        form.problems["name"] = problem
    for key, text in (("partitions", form.partitions), ("replicas", form.replicas)):
        if text and not _is_count(text):
            form.problems[key] = f"A whole number from 1 to {PARTITIONS_MAX:,}, or nothing."
    return form


def read_cut(posted: Mapping[str, str]) -> CutForm:
    mode = posted.get("mode", "")
    form = CutForm(
        mode=mode if mode in MODES else MODES[0],
        time=posted.get("time", "").strip(),
        partition=posted.get("partition", "").strip(),
        offset=posted.get("offset", "").strip(),
    )
    beside = {"time": form.time, "partition": form.partition, "offset": form.offset}
    for name in FIELDS_OF_MODE[form.mode]:
        del beside[name]
    filled = [name for name, text in beside.items() if text]
    if filled:
        form.problems["mode"] = (
            f"You chose {MODE_WORDS[form.mode]}, but filled in {words.listed(filled)} too: clear "
            "that, or choose what it belongs to."
        )
    if form.mode == "time":
        try:
            form.at_ms(UTC)
        except BadTime as error:
            form.problems["time"] = str(error)
    if form.mode == "offset":
        if not _is_number(form.partition):
            form.problems["partition"] = "The number of a partition."
        if not _is_number(form.offset):
            form.problems["offset"] = "A whole number: the first offset that stays."
    return form


def read_partition_count(posted: Mapping[str, str]) -> int | None:
    """The number of partitions wanted; None when it is no such number."""
    text = posted.get("partitions", "").strip()
    return int(text) if _is_count(text) else None


def write_offsets(offsets: Mapping[int, int]) -> str:
    """`0:12 1:40`: partition and first offset that stays, carried from preview to confirmation."""
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def read_offsets_text(text: str) -> dict[int, int]:
    """What `write_offsets` wrote. Raises ValueError for anything else."""
    found = {}
    for pair in text[:OFFSETS_LENGTH_MAX].split():
        partition, _, offset = pair.partition(":")
        if not _is_number(partition) or not _is_number(offset):
            raise ValueError(pair)
        found[int(partition)] = int(offset)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX


def _is_count(text: str) -> bool:
    return _is_number(text) and 1 <= int(text) <= PARTITIONS_MAX
