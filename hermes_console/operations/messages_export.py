"""Messages as a file: JSON without a loss, or CSV that no spreadsheet takes for a formula. Pure,
but for `export`, which reads them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from hermes_console.accounts.actor import Actor
from hermes_console.clusters import Cluster
from hermes_console.operations.messages import browse
from hermes_console.operations.messages_query import BrowseQuery, Budget
from hermes_console.operations.messages_rows import Message
from hermes_console.payloads.view import portable
from hermes_console.spreadsheet import harmless

EXPORT_RECORDS_MAX: Final = 10_000
EXPORT_BYTES_MAX: Final = 32 * 1024 * 1024
COLUMNS: Final = (
    *("partition", "offset", "timestamp_ms", "time", "timestamp_type", "key_encoding", "key"),
    *("value_encoding", "value", "headers", "control"),
)
UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
FILE_NAME_MAX: Final = 150
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_9999_MS: Final = 253_402_300_799_999


class Format(StrEnum):
    """What an export is written as."""

    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Exported:
    """A file, and why it holds no more."""

    name: str
    content_type: str
    content: bytes
    count: int
    stopped_because: str


def export(
    actor: Actor, cluster: Cluster, topic: str, query: BrowseQuery, form: Format
) -> Exported:
    """What `browse` would show, up to EXPORT_RECORDS_MAX messages, whole. Raises as `browse`."""
    asked = query.budget
    budget = Budget(
        min(asked.records, EXPORT_RECORDS_MAX), min(asked.bytes, EXPORT_BYTES_MAX), asked.seconds
    )
    found = browse(actor, cluster, topic, replace(query, budget=budget), action="messages.export")
    content = as_csv(found.messages) if form is Format.CSV else as_json(found.messages)
    kind = "text/csv; charset=utf-8" if form is Format.CSV else "application/json"
    name = file_name(topic, "messages", form.value)
    return Exported(name, kind, content, len(found.messages), found.stopped_because)


def as_json(messages: Iterable[Message]) -> bytes:
    """A list of objects, one message a line; 64-bit integers are strings, contents are whole."""
    rows = [json.dumps(message_json(one), ensure_ascii=False) for one in messages]
    return ("[\n" + ",\n".join(rows) + "\n]\n").encode("utf-8", "replace")


def as_csv(messages: Iterable[Message]) -> bytes:
    """A row per message. A cell that a spreadsheet could take for a formula begins with `'`."""
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(COLUMNS)
    for one in messages:
        row = message_json(one)
        cells = [
            *(row["partition"], row["offset"], row["timestamp_ms"], time_text(one.timestamp_ms)),
            row["timestamp_type"],
            *_content_cells(row["key"]),
            *_content_cells(row["value"]),
            json.dumps(row["headers"], ensure_ascii=False) if row["headers"] else "",
            row["control"] or "",
        ]
        writer.writerow([harmless(str(cell)) for cell in cells])
    return output.getvalue().encode("utf-8", "replace")


def message_json(message: Message, content_bytes_max: int | None = None) -> dict[str, Any]:
    """The message for JSON; contents longer than `content_bytes_max` are cut and say so."""
    return {
        "partition": message.partition,
        "offset": str(message.offset),
        "timestamp_ms": str(message.timestamp_ms),
        "timestamp_type": message.timestamp_type,
        "key": portable(message.key, content_bytes_max),
        "value": portable(message.value, content_bytes_max),
        "is_tombstone": message.is_tombstone,
        "headers": [
            {"name": name, "value": portable(value, content_bytes_max)}
            for name, value in message.headers
        ],
        "size_bytes": str(message.size),
        "compression": message.compression,
        "producer_id": None if message.producer_id is None else str(message.producer_id),
        "producer_epoch": message.producer_epoch,
        "sequence": message.sequence,
        "is_transactional": message.is_transactional,
        "control": message.control or None,
    }


def file_name(*parts: str) -> str:
    """`a-b.c`: letters, digits, `.`, `_` and `-` only, never hidden, never long. The last part is
    the extension.
    """
    *stem, extension = (UNSAFE.sub("_", part) for part in parts)
    name = "-".join(stem).lstrip(".-")[:FILE_NAME_MAX] or "message"
    return f"{name}.{extension}"


def time_text(timestamp_ms: int) -> str:
    """ISO 8601 in UTC, "" for a time before 1970 (none) or after 9999."""
    if not 0 <= timestamp_ms <= YEAR_9999_MS:
        return ""
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _content_cells(content: dict[str, Any] | None) -> tuple[str, str]:
    return ("null", "") if content is None else (content["encoding"], content["content"])
