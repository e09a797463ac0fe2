"""The forms for a new message and a new search, read into values or a problem per field. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final

from hermes_console.operations.messages_produce import CONTENT_BYTES_MAX, NewMessage
from hermes_console.pages.messages.query import read_number
from hermes_console.payloads.entry import BadEntry, Encoding, entered
from hermes_console.searches.criteria import BadCriteria, Criteria
from hermes_console.times import read_time

HEADER_ROWS_MIN: Final = 2
HEADER_ROWS_MAX: Final = 20
PARTITIONS_CHARACTERS_MAX: Final = 2_000
ENCODINGS: Final[tuple[tuple[Encoding, str], ...]] = (
    (Encoding.TEXT, "Text"),
    (Encoding.JSON, "JSON"),
    (Encoding.HEX, "Hex"),
    (Encoding.BASE64, "Base64"),
    (Encoding.NULL, "Null"),
)
KEY_ENCODINGS: Final = tuple(one for one in ENCODINGS if one[0] is not Encoding.JSON)
NEEDLE_ENCODINGS: Final = (ENCODINGS[0], ENCODINGS[2])


@dataclass(slots=True)
class HeaderRow:
    """One header as entered."""

    number: int
    name: str = ""
    value: str = ""
    encoding: str = Encoding.TEXT.value
    problem: str = ""


@dataclass(slots=True)
class ProduceForm:
    """A message as entered. `message` is None while there are problems."""

    partition: str = ""
    key: str = ""
    key_as: str = Encoding.NULL.value
    value: str = ""
    value_as: str = Encoding.TEXT.value
    time: str = ""
    headers: list[HeaderRow] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    message: NewMessage | None = None

    content_bytes_max: int = CONTENT_BYTES_MAX


def read_produce(posted: Mapping[str, str], zone: tzinfo) -> ProduceForm:
    """The form; an empty mapping gives the form to begin with."""
    form = ProduceForm(
        partition=posted.get("partition", "").strip(),
        key=posted.get("key", ""),
        key_as=posted.get("key_as", ""),
        value=_as_entered(posted.get("value", "")),
        value_as=posted.get("value_as", "") or Encoding.TEXT.value,
        time=posted.get("time", "").strip(),
    )
    if not form.key_as:  # a key was typed without a choice: text; nothing typed: none
        form.key_as = Encoding.TEXT.value if form.key else Encoding.NULL.value
    problems = form.problems
    key = _bytes(problems, "key", form.key, form.key_as)
    value = _bytes(problems, "value", form.value, form.value_as)
    form.headers, headers = _headers(posted, problems)
    partition = timestamp_ms = None
    try:
        partition = read_number(form.partition) if form.partition else None
    except ValueError as error:
        problems["partition"] = str(error)
    try:
        timestamp_ms = read_time(form.time, zone) if form.time else None
    except ValueError as error:
        problems["time"] = str(error)
    if not problems:
        form.message = NewMessage(key, value, tuple(headers), partition, timestamp_ms)
    return form


def _headers(
    posted: Mapping[str, str], problems: dict[str, str]
) -> tuple[list[HeaderRow], list[tuple[str, bytes | None]]]:
    rows: list[HeaderRow] = []
    headers: list[tuple[str, bytes | None]] = []
    for number in range(HEADER_ROWS_MAX):
        name = posted.get(f"header_name_{number}", "")
        value = posted.get(f"header_value_{number}", "")
        encoding = posted.get(f"header_as_{number}", "") or Encoding.TEXT.value
        if not name and not value:
            continue
        row = HeaderRow(len(rows), name, value, encoding)
        rows.append(row)
        content = _bytes(problems, f"header_{row.number}", value, encoding)
        row.problem = problems.get(f"header_{row.number}", "")
        if not name:
            row.problem = problems[f"header_{row.number}"] = "A header needs a name."
        headers.append((name, content))
    spare = max(HEADER_ROWS_MIN - len(rows), 1)
    blank = [HeaderRow(len(rows) + one) for one in range(spare)]
    return (rows + blank)[:HEADER_ROWS_MAX], headers


def _bytes(problems: dict[str, str], name: str, text: str, encoding: str) -> bytes | None:
    if encoding not in set(Encoding):
        problems[name] = "Choose how it is entered."
        return None
    try:
        return entered(text, Encoding(encoding))
    except BadEntry as error:
        problems[name] = str(error)
        return None


def _as_entered(text: str) -> str:
    """Browsers send line ends of a text area as CR LF; what was typed is LF."""
    return text.replace("\r\n", "\n")


@dataclass(slots=True)
class SearchForm:
    """A search as entered. `criteria` is None while there are problems."""

    value_contains: str = ""
    value_as: str = Encoding.TEXT.value
    key_equals: str = ""
    key_contains: str = ""
    header_name: str = ""
    header_equals: str = ""
    json_path: str = ""
    json_equals: str = ""
    since: str = ""
    until: str = ""
    partitions: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    criteria: Criteria | None = None


def read_search(posted: Mapping[str, str], zone: tzinfo) -> SearchForm:
    """The form; an empty field does not matter."""
    form = SearchForm(
        value_contains=posted.get("value_contains", ""),
        value_as=posted.get("value_as", "") or Encoding.TEXT.value,
        key_equals=posted.get("key_equals", ""),
        key_contains=posted.get("key_contains", ""),
        header_name=posted.get("header_name", ""),
        header_equals=posted.get("header_equals", ""),
        json_path=posted.get("json_path", "").strip(),
        json_equals=posted.get("json_equals", ""),
        since=posted.get("since", "").strip(),
        until=posted.get("until", "").strip(),
        partitions=posted.get("partitions", "").strip(),
    )
    problems = form.problems
    needle = _bytes(problems, "value_contains", form.value_contains, form.value_as)
    times: dict[str, int | None] = {"since": None, "until": None}
    for name in times:
        text = getattr(form, name)
        try:
            times[name] = read_time(text, zone) if text else None
        except ValueError as error:
            problems[name] = str(error)
    partitions: tuple[int, ...] = ()
    try:
        partitions = read_partitions(form.partitions)
    except ValueError as error:
        problems["partitions"] = str(error)
    has_header = bool(form.header_name)
    try:
        criteria = Criteria(
            value_contains=needle or None,
            key_equals=form.key_equals.encode() or None,
            key_contains=form.key_contains.encode() or None,
            header_name=form.header_name or None,
            header_equals=form.header_equals.encode() if has_header or form.header_equals else None,
            json_path=form.json_path or None,
            json_equals=form.json_equals if form.json_path or form.json_equals else None,
            since_ms=times["since"],
            until_ms=times["until"],
            partitions=partitions,
        ).checked()
    except BadCriteria as error:
        problems.setdefault(error.name, str(error))
    else:
        form.criteria = None if problems else criteria
    return form


def read_partitions(text: str) -> tuple[int, ...]:
    """`0, 3-5` as numbers in order. Raises ValueError."""
    if len(text) > PARTITIONS_CHARACTERS_MAX:
        raise ValueError("Enter fewer partitions, or none for all.")
    numbers: set[int] = set()
    for part in filter(None, (one.strip() for one in text.split(","))):
        first, dash, last = (one.strip() for one in part.partition("-"))
        low = read_number(first)
        high = read_number(last) if dash else low
        if not low <= high < low + 10_000:
            raise ValueError("Enter partitions as 0, 3-5.")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))
