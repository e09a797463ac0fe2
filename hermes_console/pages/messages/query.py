"""What a page's address or form asks for, read into values or a problem per field. Pure: the zone
that times are entered in is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final, TypeVar
from urllib.parse import urlencode

from hermes_console.operations.messages_query import (
    INT64_MAX,
    RECORDS_DEFAULT,
    RECORDS_MAX,
    BadCursor,
    BrowseQuery,
    Budget,
    Cursor,
    Start,
    make_cursor,
    read_cursor,
)
from hermes_console.payloads.entry import BadEntry, Encoding, entered
from hermes_console.payloads.view import Form
from hermes_console.times import read_time

MIB: Final = 1024 * 1024
NUMBER_DIGITS_MAX: Final = 19
RECORD_CHOICES: Final = (20, 50, 100, 200, RECORDS_MAX)
KEY_CHARACTERS_MAX: Final = 4_096
STARTS: Final = (
    (Start.NEWEST, "Newest first"),
    (Start.OLDEST, "Oldest first"),
    (Start.OFFSET, "From an offset"),
    (Start.TIME, "From a time"),
)
T = TypeVar("T")


@dataclass(slots=True)
class BrowseForm:
    """The fields as entered, and what they mean. `problems` are sentences by field."""

    partition: str = ""
    start: str = Start.NEWEST.value
    offset: str = ""
    time: str = ""
    key: str = ""
    has_key: bool = False
    key_as: str = Encoding.TEXT.value
    is_everywhere: bool = False
    records: int = RECORDS_DEFAULT
    form: Form = Form.AUTO
    mib: str = ""
    seconds: str = ""
    cursor: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    query: BrowseQuery = field(default_factory=BrowseQuery)

    def address(self, *, cursor: Cursor | None = None, **changes: str) -> str:
        """`?…` of the same list, at another page."""
        fields = {
            "partition": self.partition,
            "from": self.start if self.start != Start.NEWEST else "",
            "offset": self.offset if self.start == Start.OFFSET else "",
            "time": self.time if self.start == Start.TIME else "",
            "key": self.key,
            "key_as": self.key_as if self.has_key and self.key_as != Encoding.TEXT else "",
            "everywhere": "1" if self.is_everywhere else "",
            "n": str(self.records) if self.records != RECORDS_DEFAULT else "",
            "mb": self.mib,
            "s": self.seconds,
            "cursor": "" if cursor is None else make_cursor(cursor),
            **changes,
        }
        return "?" + urlencode({name: value for name, value in fields.items() if value})

    def api_query(self) -> str:
        """`?…` for the same list from the admin API, "" when it is the API's own default. Only of
        a form without problems.
        """
        query = self.query
        fields = {
            "partition": "" if query.partition is None else str(query.partition),
            "start": query.start.value if query.start != Start.NEWEST else "",
            "offset": str(query.offset) if query.start == Start.OFFSET else "",
            "time_ms": str(query.at_ms) if query.start == Start.TIME else "",
            "key": self.key if query.key is not None else "",
            "key_encoding": self.key_as
            if query.key is not None and self.key_as != Encoding.TEXT
            else "",
            "all_partitions": "true" if query.is_everywhere else "",
            "limit": str(self.records) if self.records != RECORDS_DEFAULT else "",
        }
        words = urlencode({name: value for name, value in fields.items() if value})
        return f"?{words}" if words else ""


def read_browse(parameters: Mapping[str, str], zone: tzinfo) -> BrowseForm:
    """The form behind an address. What is entered wrongly is a problem, never a guess."""
    form = BrowseForm(
        partition=parameters.get("partition", "").strip(),
        start=parameters.get("from", "").strip() or Start.NEWEST.value,
        offset=parameters.get("offset", "").strip(),
        time=parameters.get("time", "").strip(),
        key=parameters.get("key", "")[:KEY_CHARACTERS_MAX],
        key_as=parameters.get("key_as", "") or Encoding.TEXT.value,
        is_everywhere=bool(parameters.get("everywhere")),
        mib=parameters.get("mb", "").strip(),
        seconds=parameters.get("s", "").strip(),
        cursor=parameters.get("cursor", ""),
    )
    form.has_key = bool(form.key)
    if parameters.get("view") in set(Form):
        form.form = Form(parameters["view"])
    problems = form.problems
    partition = _checked(problems, "partition", form.partition, None, read_number)
    if form.start not in set(Start):
        problems["from"] = "Choose where to begin."
        form.start = Start.NEWEST.value
    start = Start(form.start)
    offset = at_ms = 0
    if start is Start.OFFSET:
        offset = _required(problems, "offset", form.offset, "Enter an offset.", read_number)
    if start is Start.TIME:
        at_ms = _required(
            problems, "time", form.time, "Enter a time.", lambda text: read_time(text, zone)
        )
    budget = _budget(form, parameters.get("n", ""))
    key = None
    if form.key_as not in {Encoding.TEXT, Encoding.HEX, Encoding.BASE64}:
        problems["key"] = "A key is entered as text, hex or base64."
    elif form.has_key:
        key = _checked(
            problems, "key", form.key, None, lambda text: entered(text, Encoding(form.key_as))
        )
    cursor = _checked(problems, "cursor", form.cursor, None, read_cursor)
    form.query = BrowseQuery(
        partition=partition,
        start=start,
        offset=offset or 0,
        at_ms=at_ms or 0,
        key=key,
        is_everywhere=form.is_everywhere,
        cursor=cursor,
        budget=budget,
    )
    return form


def _budget(form: BrowseForm, records_text: str) -> Budget:
    """The budget asked for, within what the server allows; the form keeps its messages."""
    default = Budget()
    records = _checked(form.problems, "n", records_text, default.records, read_number)
    mib = _checked(form.problems, "mb", form.mib, default.bytes // MIB, read_number)
    seconds = _checked(form.problems, "s", form.seconds, int(default.seconds), read_number)
    form.records = min(max(1, records), RECORDS_MAX)
    return Budget(form.records, max(1, mib) * MIB, max(1, seconds)).bounded()


def read_number(text: str) -> int:
    """A whole number from 0 to 2^63 − 1. Raises ValueError with what to correct."""
    if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
        raise ValueError("Enter a whole number from 0 on.")
    if int(text) > INT64_MAX:
        raise ValueError(f"The largest offset is {INT64_MAX}.")
    return int(text)


def _checked(problems: dict[str, str], name: str, text: str, default: T, read: object) -> T:
    """What `read` makes of the text; the default for an empty one, and for a wrong one."""
    if not text:
        return default
    try:
        value: T = read(text)  # type: ignore[operator]
    except (BadEntry, BadCursor):
        problems[name] = (
            "The page's address is damaged: begin again."
            if name == "cursor"
            else "The key is not what it is entered as: correct it, or enter it as text."
        )
    except ValueError as error:
        problems[name] = str(error)
    else:
        return value
    return default


def _required(problems: dict[str, str], name: str, text: str, missing: str, read: object) -> int:
    if not text:
        problems[name] = missing
    return _checked(problems, name, text, 0, read)
