"""What the templates of messages are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.core.paginator import Paginator
from django.http import HttpResponse

from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import require
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.operations.messages import Browsed, Read, topic_facts
from hermes_console.operations.messages_export import EXPORT_RECORDS_MAX, YEAR_9999_MS
from hermes_console.operations.messages_produce import CONTENT_BYTES_MAX, NewMessage
from hermes_console.operations.messages_query import BrowseQuery
from hermes_console.operations.messages_rows import Message
from hermes_console.operations.topics_catalogue import read_catalogue
from hermes_console.pages.messages.forms import (
    ENCODINGS,
    KEY_ENCODINGS,
    ProduceForm,
)
from hermes_console.pages.messages.query import RECORD_CHOICES, STARTS, BrowseForm
from hermes_console.payloads.view import Form, Shown, line, show

TOPICS_PAGE: Final = 50
SEARCH_LENGTH_MAX: Final = 249
HEADERS_SHOWN_MAX: Final = 200
EMPTY_MESSAGE: Final = NewMessage(None, None)
FORM_WORDS: Final = (
    (Form.AUTO, "Auto"),
    (Form.JSON, "JSON"),
    (Form.TEXT, "Text"),
    (Form.HEX, "Hex"),
)
DOWNLOAD_POLICY: Final = "default-src 'none'; sandbox"


@dataclass(frozen=True, slots=True)
class Row:
    """A message in a list. `at_ms` is None for a time that no calendar has."""

    message: Message
    key: str
    value: str

    @property
    def at_ms(self) -> int | None:
        return calendar_ms(self.message.timestamp_ms)


@dataclass(frozen=True, slots=True)
class HeaderShown:
    """One header of a message; names may repeat."""

    index: int
    name: str
    value: Shown

    @property
    def index_text(self) -> str:
        return str(self.index)


def calendar_ms(timestamp_ms: int) -> int | None:
    """The time, None for one that cannot be written as a date."""
    return timestamp_ms if 0 <= timestamp_ms <= YEAR_9999_MS else None


def rows_of(messages: Sequence[Message]) -> list[Row]:
    """For a list."""
    return [Row(one, line(one.key), line(one.value)) for one in messages]


def topics_context(cluster: Cluster, parameters: Mapping[str, str]) -> dict[str, Any]:
    """A page of the topics that fit. Raises ClientError."""
    search = parameters.get("q", "").strip()[:SEARCH_LENGTH_MAX]
    has_internal = bool(parameters.get("internal"))
    wanted = search.casefold()
    entries = [
        entry
        for entry in read_catalogue(cluster).entries
        if wanted in entry.name.casefold() and (has_internal or not entry.is_internal)
    ]
    page = Paginator(entries, TOPICS_PAGE).get_page(parameters.get("page"))
    return {
        "cluster": cluster,
        "page": page,
        "search": search,
        "has_internal": has_internal,
        "found_count": len(entries),
    }


def browse_context(cluster: Cluster, topic: str, form: BrowseForm, actor: Actor) -> dict[str, Any]:
    """Everything but the messages."""
    return {
        "cluster": cluster,
        "topic": topic,
        "form": form,
        "starts": STARTS,
        "record_choices": RECORD_CHOICES,
        "key_encodings": [one for one in KEY_ENCODINGS if one[0].value != "null"],
        "may_produce": actor.may(Right.PRODUCE, cluster),
        "export_records_max": EXPORT_RECORDS_MAX,
        "export_address": form.address()[1:],
        "api_query": "" if form.problems else form.api_query(),
    }


def page_context(page: Browsed, form: BrowseForm) -> dict[str, Any]:
    """The messages, why there are no more, and the ways on."""
    return {
        "page": page,
        "facts": page.topic,
        "rows": rows_of(page.messages),
        "older": None if page.older is None else form.address(cursor=page.older),
        "newer": None if page.newer is None else form.address(cursor=page.newer),
        "first": form.address(),
        "partition_choices": list(range(min(page.topic.partition_count, 1_000))),
    }


def message_context(
    cluster: Cluster, read: Read, partition: int, offset: int, view: str
) -> dict[str, Any]:
    """One message in the form asked for, or why there is none."""
    form = Form(view) if view in set(Form) else Form.AUTO
    message = read.message
    start, end = read.topic.ranges[partition]
    context: dict[str, Any] = {
        "cluster": cluster,
        "topic": read.topic.name,
        "partition": partition,
        "offset": offset,
        "offset_text": str(offset),
        "reason": read.reason,
        "previous": str(offset - 1) if start < offset <= end else None,
        "following": str(offset + 1) if start <= offset + 1 < end else None,
        "start": start,
        "end": end,
        "forms": FORM_WORDS,
        "form": form,
    }
    if message is None:
        return context
    headers = [
        HeaderShown(index, name, show(value))
        for index, (name, value) in enumerate(message.headers[:HEADERS_SHOWN_MAX])
    ]
    return {
        **context,
        "message": message,
        "at_ms": calendar_ms(message.timestamp_ms),
        "key": show(message.key),
        "value": show(message.value, form),
        "headers": headers,
        "headers_more": max(0, len(message.headers) - HEADERS_SHOWN_MAX),
    }


def produce_context(
    cluster: Cluster, topic: str, form: ProduceForm, actor: Actor
) -> dict[str, Any]:
    """The form for a new message. Raises ClientError, Refused, NotAllowed."""
    require(actor, Right.PRODUCE, cluster=cluster, target=topic)
    facts = topic_facts(client_for(cluster), topic)
    return {
        "cluster": cluster,
        "topic": topic,
        "facts": facts,
        "form": form,
        "encodings": ENCODINGS,
        "key_encodings": KEY_ENCODINGS,
        "content_bytes_max": min(CONTENT_BYTES_MAX, facts.max_message_bytes or CONTENT_BYTES_MAX),
        "partition_choices": list(range(min(facts.partition_count, 1_000))),
    }


def with_records(query: BrowseQuery, records: int) -> BrowseQuery:
    """The query for up to that many messages."""
    return replace(query, budget=replace(query.budget, records=records))


def download(name: str, content_type: str, content: bytes) -> HttpResponse:
    """A file that is saved, never shown: whatever the bytes are, no browser runs them."""
    response = HttpResponse(content, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = DOWNLOAD_POLICY
    response["Cache-Control"] = "no-store"
    return response
