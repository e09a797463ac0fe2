"""The shapes of the API of messages: what is asked and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty

from hermes_console.operations.messages import Browsed
from hermes_console.operations.messages_export import Format, message_json
from hermes_console.operations.messages_produce import HEADERS_MAX, NewMessage
from hermes_console.operations.messages_query import (
    BYTES_DEFAULT,
    BYTES_MAX,
    CURSOR_CHARACTERS_MAX,
    INT64_MAX,
    RECORDS_DEFAULT,
    RECORDS_MAX,
    SECONDS_DEFAULT,
    SECONDS_MAX,
    BadCursor,
    BrowseQuery,
    Budget,
    Start,
    make_cursor,
    read_cursor,
)
from hermes_console.operations.messages_reading import Stop
from hermes_console.operations.messages_search import HitPage
from hermes_console.payloads.entry import BadEntry, Encoding, entered
from hermes_console.payloads.view import PREVIEW_BYTES_MAX
from hermes_console.searches.criteria import NEEDLE_BYTES_MAX, PATH_CHARACTERS_MAX, Criteria
from hermes_console.searches.models import SearchJob, State

PARTITION_MAX: Final = 1_000_000
CONTENT_CHARACTERS_MAX: Final = 1_048_576
NEEDLE_CHARACTERS_MAX: Final = 4 * NEEDLE_BYTES_MAX
INT64: Final = "A 64-bit integer as text."
BYTE_ENCODINGS: Final = [one.value for one in Encoding if one is not Encoding.NULL]
FOUND_LIMIT_MAX: Final = 100


class Int64Field(serializers.RegexField):
    """A whole number from 0 to 2^63 − 1, as text or number."""

    def __init__(self, **options: Any) -> None:
        super().__init__(r"\A[0-9]{1,19}\Z", max_length=19, **options)

    def run_validation(self, data: Any = empty) -> Any:
        value = super().run_validation(str(data) if type(data) is int else data)
        if not isinstance(value, str):  # the default
            return value
        if int(value) > INT64_MAX:
            raise serializers.ValidationError(f"At most {INT64_MAX}.")
        return int(value)


class RecordsQuerySerializer(serializers.Serializer[Any]):
    """Which messages, and how much may be read for them."""

    partition = serializers.IntegerField(
        required=False, min_value=0, max_value=PARTITION_MAX, help_text="All if absent."
    )
    start = serializers.ChoiceField(
        [one.value for one in Start],
        required=False,
        default=Start.NEWEST.value,
        help_text="newest goes back in time, the others forward.",
    )
    offset = Int64Field(required=False, help_text="For start=offset.")
    time_ms = Int64Field(
        required=False, help_text="For start=time: milliseconds since 1970 UTC as text."
    )
    key = serializers.CharField(
        required=False,
        max_length=NEEDLE_CHARACTERS_MAX,
        trim_whitespace=False,
        help_text="Only messages with exactly this key, in the partition that murmur2 gives it.",
    )
    key_encoding = serializers.ChoiceField(
        [Encoding.TEXT.value, Encoding.HEX.value, Encoding.BASE64.value],
        required=False,
        default=Encoding.TEXT.value,
    )
    all_partitions = serializers.BooleanField(
        required=False, default=False, help_text="Look for the key in every partition."
    )
    limit = serializers.IntegerField(
        required=False, min_value=1, max_value=RECORDS_MAX, default=RECORDS_DEFAULT
    )
    max_bytes = serializers.IntegerField(
        required=False, min_value=1, max_value=BYTES_MAX, default=BYTES_DEFAULT
    )
    max_seconds = serializers.IntegerField(
        required=False, min_value=1, max_value=SECONDS_MAX, default=SECONDS_DEFAULT
    )
    content_bytes = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=PREVIEW_BYTES_MAX,
        default=PREVIEW_BYTES_MAX,
        help_text="Keys, values and headers' values are cut there; …/value gives all of it.",
    )
    cursor = serializers.CharField(
        required=False,
        max_length=CURSOR_CHARACTERS_MAX,
        help_text="older_cursor or newer_cursor of a page with the same parameters.",
    )


class ExportQuerySerializer(RecordsQuerySerializer):
    """As for the list; `limit` does not count, an export has its own."""

    file = serializers.ChoiceField([one.value for one in Format], default=Format.JSON.value)


class ContentSerializer(serializers.Serializer[Any]):
    """Bytes. `content` is text when they are UTF-8, else base64; nothing is lost."""

    encoding = serializers.ChoiceField(["utf-8", "base64"])
    content = serializers.CharField(allow_blank=True)
    size = serializers.CharField(help_text=f"Bytes in all. {INT64}")
    is_truncated = serializers.BooleanField(help_text="content is only the beginning.")


class HeaderSerializer(serializers.Serializer[Any]):
    """One header; names may repeat."""

    name = serializers.CharField(allow_blank=True)
    value = ContentSerializer(allow_null=True)


class RecordSerializer(serializers.Serializer[Any]):
    """One message. A null key or value is null; an empty one has size 0."""

    partition = serializers.IntegerField()
    offset = serializers.CharField(help_text=INT64)
    timestamp_ms = serializers.CharField(help_text=f"Milliseconds since 1970 UTC. {INT64}")
    timestamp_type = serializers.ChoiceField(["CreateTime", "LogAppendTime"])
    key = ContentSerializer(allow_null=True)
    value = ContentSerializer(allow_null=True)
    is_tombstone = serializers.BooleanField(help_text="The value is null.")
    headers = HeaderSerializer(many=True)
    size_bytes = serializers.CharField(help_text=f"Key, value and headers. {INT64}")
    compression = serializers.CharField()
    producer_id = serializers.CharField(allow_null=True, help_text=INT64)
    producer_epoch = serializers.IntegerField(allow_null=True)
    sequence = serializers.IntegerField(allow_null=True)
    is_transactional = serializers.BooleanField()
    control = serializers.CharField(
        allow_null=True, help_text="commit or abort for the marker of a transaction, else null."
    )


class RecordPageSerializer(serializers.Serializer[Any]):
    """A page of messages, and why there are no more on it."""

    topic = serializers.CharField()
    partitions = serializers.ListField(child=serializers.IntegerField(), help_text="Those read.")
    records = RecordSerializer(many=True)
    stopped = serializers.ChoiceField([one.value for one in Stop])
    stopped_because = serializers.CharField()
    scanned_records = serializers.CharField(help_text=f"Looked at. {INT64}")
    read_bytes = serializers.CharField(help_text=INT64)
    notes = serializers.ListField(child=serializers.CharField())
    older_cursor = serializers.CharField(allow_null=True)
    newer_cursor = serializers.CharField(allow_null=True)


class NewContentSerializer(serializers.Serializer[Any]):
    """Bytes to store."""

    encoding = serializers.ChoiceField(
        BYTE_ENCODINGS, default=Encoding.TEXT.value, help_text="json is checked, and kept as it is."
    )
    content = serializers.CharField(
        allow_blank=True, trim_whitespace=False, max_length=CONTENT_CHARACTERS_MAX
    )


class NewHeaderSerializer(serializers.Serializer[Any]):
    """A header to store."""

    name = serializers.CharField(max_length=1_024, trim_whitespace=False, allow_blank=True)
    value = NewContentSerializer(allow_null=True)


class ProduceSerializer(serializers.Serializer[Any]):
    """A message to store."""

    partition = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=0,
        max_value=PARTITION_MAX,
        help_text="If absent: where murmur2 puts the key; without a key, anywhere.",
    )
    key = NewContentSerializer(required=False, allow_null=True, default=None)
    value = NewContentSerializer(allow_null=True, help_text="null is a tombstone.")
    headers = serializers.ListField(
        child=NewHeaderSerializer(), required=False, default=list, max_length=HEADERS_MAX
    )
    timestamp_ms = Int64Field(
        required=False, allow_null=True, default=None, help_text="Now if absent."
    )


class ProducedSerializer(serializers.Serializer[Any]):
    """Where the message is."""

    partition = serializers.IntegerField()
    offset = serializers.CharField(help_text=f"{INT64} -1: stored before, the broker forgot where.")


class SearchSerializer(serializers.Serializer[Any]):
    """What to look for; all that is given must hold. There are no regular expressions."""

    value_contains = NewContentSerializer(required=False)
    key_equals = NewContentSerializer(required=False)
    key_contains = NewContentSerializer(required=False)
    header_name = serializers.CharField(
        required=False, max_length=NEEDLE_BYTES_MAX, trim_whitespace=False
    )
    header_equals = NewContentSerializer(required=False)
    json_path = serializers.CharField(
        required=False,
        max_length=PATH_CHARACTERS_MAX,
        help_text='For example order.lines[0]["unit price"].',
    )
    json_equals = serializers.CharField(
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        max_length=NEEDLE_BYTES_MAX,
        help_text='A JSON scalar, or a string without quotes: 42, true, null, "42", Berlin.',
    )
    since_ms = Int64Field(required=False, help_text="Inclusive.")
    until_ms = Int64Field(required=False, help_text="Exclusive.")
    partitions = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=PARTITION_MAX),
        required=False,
        max_length=10_000,
        help_text="All if absent.",
    )


class SearchStateSerializer(serializers.Serializer[Any]):
    """How far a search is."""

    key = serializers.CharField()
    topic = serializers.CharField()
    started_by = serializers.CharField()
    state = serializers.ChoiceField([one.value for one in State])
    reason = serializers.CharField(allow_blank=True)
    is_resumable = serializers.BooleanField()
    percent = serializers.IntegerField()
    passed_offsets = serializers.CharField(help_text=INT64)
    total_offsets = serializers.CharField(help_text=INT64)
    scanned_records = serializers.CharField(help_text=INT64)
    scanned_bytes = serializers.CharField(help_text=INT64)
    unreadable_batches = serializers.IntegerField(help_text="Damaged batches that were passed.")
    found_count = serializers.IntegerField()
    found_limit = serializers.IntegerField()
    bytes_per_second = serializers.FloatField(allow_null=True)
    created_at_ms = serializers.CharField(help_text=INT64)
    updated_at_ms = serializers.CharField(help_text=INT64)


class SearchListSerializer(serializers.Serializer[Any]):
    """The newest searches of a topic."""

    searches = SearchStateSerializer(many=True)


class FoundQuerySerializer(serializers.Serializer[Any]):
    """A page of found messages."""

    after = Int64Field(required=False, default=0, help_text="next_after of the page before.")
    limit = serializers.IntegerField(
        required=False, min_value=1, max_value=FOUND_LIMIT_MAX, default=20
    )


class FoundSerializer(serializers.Serializer[Any]):
    """A found place; `record` is null when the message is no longer there."""

    partition = serializers.IntegerField()
    offset = serializers.CharField(help_text=INT64)
    timestamp_ms = serializers.CharField(help_text=INT64)
    record = RecordSerializer(allow_null=True)


class FoundPageSerializer(serializers.Serializer[Any]):
    """Found messages, in the order they were found."""

    found = FoundSerializer(many=True)
    next_after = serializers.CharField(allow_null=True, help_text=INT64)


def query_of(fields: Mapping[str, Any]) -> BrowseQuery:
    """The query of a list. Raises ValidationError."""
    start = Start(fields["start"])
    for needed, name in ((Start.OFFSET, "offset"), (Start.TIME, "time_ms")):
        if start is needed and name not in fields:
            raise ValidationError({name: [f"Needed for start={start}."]})
    key = None
    if "key" in fields:
        key = _entered("key", fields["key"], fields["key_encoding"])
    cursor = None
    if "cursor" in fields:
        try:
            cursor = read_cursor(fields["cursor"])
        except BadCursor as error:
            raise ValidationError(
                {"cursor": ["Use a cursor of a page with the same parameters."]}
            ) from error
    return BrowseQuery(
        partition=fields.get("partition"),
        start=start,
        offset=fields.get("offset", 0),
        at_ms=fields.get("time_ms", 0),
        key=key,
        is_everywhere=fields["all_partitions"],
        cursor=cursor,
        budget=Budget(fields["limit"], fields["max_bytes"], fields["max_seconds"]).bounded(),
    )


def page_json(page: Browsed, content_bytes: int) -> dict[str, Any]:
    """As RecordPageSerializer describes it."""
    return {
        "topic": page.topic.name,
        "partitions": page.partitions,
        "records": [message_json(one, content_bytes) for one in page.messages],
        "stopped": page.stop.value,
        "stopped_because": page.stopped_because,
        "scanned_records": str(page.scanned),
        "read_bytes": str(page.read_bytes),
        "notes": page.notes,
        "older_cursor": None if page.older is None else make_cursor(page.older),
        "newer_cursor": None if page.newer is None else make_cursor(page.newer),
    }


def new_message_of(fields: Mapping[str, Any]) -> NewMessage:
    """The message to store. Raises ValidationError."""
    return NewMessage(
        key=_content("key", fields["key"]),
        value=_content("value", fields["value"]),
        headers=tuple(
            (one["name"], _content("headers", one["value"])) for one in fields["headers"]
        ),
        partition=fields["partition"],
        timestamp_ms=fields["timestamp_ms"],
    )


def criteria_of(fields: Mapping[str, Any]) -> Criteria:
    """The criteria, unchecked. Raises ValidationError for what is not what its encoding says."""
    return Criteria(
        value_contains=_content("value_contains", fields.get("value_contains")),
        key_equals=_content("key_equals", fields.get("key_equals")),
        key_contains=_content("key_contains", fields.get("key_contains")),
        header_name=fields.get("header_name"),
        header_equals=_content("header_equals", fields.get("header_equals")),
        json_path=fields.get("json_path"),
        json_equals=fields.get("json_equals"),
        since_ms=fields.get("since_ms"),
        until_ms=fields.get("until_ms"),
        partitions=tuple(sorted(set(fields.get("partitions", ())))),
    )


def search_json(job: SearchJob) -> dict[str, Any]:
    """As SearchStateSerializer describes it."""
    return {
        "key": job.key,
        "topic": job.topic,
        "started_by": job.actor,
        "state": job.state,
        "reason": job.reason,
        "is_resumable": job.is_resumable,
        "percent": job.percent,
        "passed_offsets": str(job.passed_records),
        "total_offsets": str(job.total_records),
        "scanned_records": str(job.scanned_records),
        "scanned_bytes": str(job.scanned_bytes),
        "unreadable_batches": job.unreadable_batches,
        "found_count": job.hit_count,
        "found_limit": job.hits_limit,
        "bytes_per_second": job.bytes_per_s,
        "created_at_ms": str(job.created_at_ms),
        "updated_at_ms": str(job.updated_at_ms),
    }


def found_json(page: HitPage) -> dict[str, Any]:
    """As FoundPageSerializer describes it."""
    return {
        "found": [
            {
                "partition": place.partition,
                "offset": str(place.offset),
                "timestamp_ms": str(place.timestamp_ms),
                "record": None if message is None else message_json(message, PREVIEW_BYTES_MAX),
            }
            for place, message in page.hits
        ],
        "next_after": None if page.next_after is None else str(page.next_after),
    }


def _content(name: str, fields: Mapping[str, Any] | None) -> bytes | None:
    return None if fields is None else _entered(name, fields["content"], fields["encoding"])


def _entered(name: str, text: str, encoding: str) -> bytes | None:
    try:
        return entered(text, Encoding(encoding))
    except BadEntry as error:
        raise ValidationError({name: [str(error)]}) from error
