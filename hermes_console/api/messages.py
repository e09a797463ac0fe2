"""`/api/admin/v1/clusters/{cluster}/topics/{topic}/records…`: messages, and searches of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from django.http import HttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.accounts.rights import Right
from hermes_console.api import messages_shapes as shapes
from hermes_console.api.base import AdminView, idempotent, problems
from hermes_console.api.topics import TopicRecords
from hermes_console.errors import Refused
from hermes_console.operations import messages as reading
from hermes_console.operations import messages_search as searching
from hermes_console.operations.messages_export import (
    EXPORT_RECORDS_MAX,
    Format,
    export,
    message_json,
)
from hermes_console.operations.messages_produce import produce_one
from hermes_console.operations.messages_raw import raw_part
from hermes_console.payloads.view import PREVIEW_BYTES_MAX

TROUBLES: Final = problems(404, 409, 422, 501, 502, 503, 504)
PRODUCE_TROUBLES: Final = problems(404, 409, 413, 422, 501, 502, 503, 504, 507)
PRODUCE_EXAMPLE: Final = {
    "key": {"content": "order-17"},
    "value": {"encoding": "json", "content": '{"id": 9007199254740993, "total": 10.50}'},
    "headers": [{"name": "event-type", "value": {"content": "OrderCreated"}}],
}
RECORD_EXAMPLE: Final = {
    "partition": 3,
    "offset": "1042",
    "timestamp_ms": "1764424800000",
    "timestamp_type": "CreateTime",
    "key": {"encoding": "utf-8", "content": "order-17", "size": "8", "is_truncated": False},
    "value": None,
    "is_tombstone": True,
    "headers": [],
    "size_bytes": "8",
    "compression": "none",
    "producer_id": "7",
    "producer_epoch": 0,
    "sequence": 12,
    "is_transactional": False,
    "control": None,
}


class Records(TopicRecords):
    """The messages of a topic; its DELETE is that of `topics`: one address, one view."""

    rights = {**TopicRecords.rights, "GET": Right.MESSAGES_READ, "POST": Right.PRODUCE}

    @extend_schema(
        operation_id="records_list",
        summary="Browse messages",
        description=(
            "By default the newest of all partitions, by timestamp. A page ends when it is full, "
            "when nothing follows, or when its budget of bytes or seconds is used up: stopped and "
            "stopped_because say which, and the cursors go on from there. Reads are audited."
        ),
        parameters=[shapes.RecordsQuerySerializer],
        responses={200: shapes.RecordPageSerializer, **TROUBLES},
    )
    def get(self, _request: Request, cluster: str, topic: str) -> Response:
        fields = self.query(shapes.RecordsQuerySerializer)
        query = shapes.query_of(fields)
        page = reading.browse(self.actor, self.cluster(cluster), topic, query)
        return Response(shapes.page_json(page, fields["content_bytes"]))

    @extend_schema(
        operation_id="record_produce",
        summary="Produce one message",
        description="Answered when all in-sync replicas have it.",
        request=shapes.ProduceSerializer,
        responses={201: shapes.ProducedSerializer, **PRODUCE_TROUBLES},
        examples=[OpenApiExample("A JSON value", value=PRODUCE_EXAMPLE, request_only=True)],
    )
    @idempotent()
    def post(self, request: Request, cluster: str, topic: str) -> Response:
        message = shapes.new_message_of(self.body(shapes.ProduceSerializer))
        stored = produce_one(self.actor, self.cluster(cluster), topic, message)
        headers = {}
        if stored.offset >= 0:
            headers["Location"] = f"{request.path}/{stored.partition}/{stored.offset}"
        body = {"partition": stored.partition, "offset": str(stored.offset)}
        return Response(body, status=201, headers=headers)


class RecordExport(AdminView):
    """Messages as a file."""

    rights = {"GET": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="records_export",
        summary="Export messages",
        description=(
            f"Up to {EXPORT_RECORDS_MAX:,} messages, whole, as JSON without a loss or as CSV in "
            "which a cell that a spreadsheet could take for a formula begins with '."
        ),
        parameters=[shapes.ExportQuerySerializer],
        responses={
            (200, "application/json"): shapes.RecordSerializer(many=True),
            (200, "text/csv"): OpenApiTypes.STR,
            **TROUBLES,
        },
    )
    def get(self, _request: Request, cluster: str, topic: str) -> HttpResponse:
        fields = self.query(shapes.ExportQuerySerializer)
        query = shapes.query_of(fields)
        query = replace(query, budget=replace(query.budget, records=EXPORT_RECORDS_MAX))
        file = export(self.actor, self.cluster(cluster), topic, query, Format(fields["file"]))
        return _file(file.name, file.content_type, file.content)


class Record(AdminView):
    """One message."""

    rights = {"GET": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="record_get",
        summary="Read one message",
        description="404 says why there is none at the offset.",
        responses={200: shapes.RecordSerializer, **TROUBLES},
        examples=[OpenApiExample("A tombstone", value=RECORD_EXAMPLE, response_only=True)],
    )
    def get(
        self, _request: Request, cluster: str, topic: str, partition: int, offset: int
    ) -> Response:
        read = reading.read_one(self.actor, self.cluster(cluster), topic, partition, offset)
        if read.message is None:
            raise Refused(404, "no-such-message", read.reason)
        return Response(message_json(read.message, PREVIEW_BYTES_MAX))


class RecordPart(AdminView):
    """A part of a message as it is."""

    rights = {"GET": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="record_part",
        summary="Download a key, a value or a header's value",
        description="part is key, value or header-<index>. Always a file, whatever the bytes are.",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY, **TROUBLES},
    )
    def get(
        self, _request: Request, cluster: str, topic: str, partition: int, offset: int, part: str
    ) -> HttpResponse:
        file = raw_part(self.actor, self.cluster(cluster), topic, partition, offset, part)
        return _file(file.name, "application/octet-stream", file.content)


class Searches(AdminView):
    """Searches of a topic."""

    rights = {"GET": Right.MESSAGES_READ, "POST": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="searches_list",
        summary="List the newest searches of a topic",
        responses={200: shapes.SearchListSerializer, **TROUBLES},
    )
    def get(self, _request: Request, cluster: str, topic: str) -> Response:
        jobs = searching.list_searches(self.actor, self.cluster(cluster), topic)
        return Response({"searches": [shapes.search_json(job) for job in jobs]})

    @extend_schema(
        operation_id="search_start",
        summary="Search a topic's messages",
        description=(
            "A job: ask for its state, cancel it, resume it. It looks at what is stored now, from "
            "old to new; until_ms ends it at the first message of that time or later."
        ),
        request=shapes.SearchSerializer,
        responses={201: shapes.SearchStateSerializer, **TROUBLES},
        examples=[
            OpenApiExample(
                "A text in the value",
                value={"value_contains": {"content": "order-17"}},
                request_only=True,
            )
        ],
    )
    @idempotent()
    def post(self, _request: Request, cluster: str, topic: str) -> Response:
        criteria = shapes.criteria_of(self.body(shapes.SearchSerializer))
        job = searching.start_search(self.actor, self.cluster(cluster), topic, criteria)
        return Response(shapes.search_json(job), status=201)


class Search(AdminView):
    """One search."""

    rights = {"GET": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="search_get",
        summary="Ask how far a search is",
        responses={200: shapes.SearchStateSerializer, **TROUBLES},
    )
    def get(self, _request: Request, cluster: str, topic: str, key: str) -> Response:
        job = searching.get_search(self.actor, self.cluster(cluster), topic, key)
        return Response(shapes.search_json(job))


class SearchFound(AdminView):
    """What a search found."""

    rights = {"GET": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="search_found",
        summary="List the messages that a search found",
        description=(
            "Read from the cluster now, also while the search runs. A slow cluster makes the page "
            "shorter than `limit`; `next_after` says where the next one begins, null that none "
            "follows."
        ),
        parameters=[shapes.FoundQuerySerializer],
        responses={200: shapes.FoundPageSerializer, **TROUBLES},
    )
    def get(self, _request: Request, cluster: str, topic: str, key: str) -> Response:
        fields = self.query(shapes.FoundQuerySerializer)
        where = self.cluster(cluster)
        job = searching.get_search(self.actor, where, topic, key)
        page = searching.hits_of(
            self.actor, where, job, after=fields["after"], limit=fields["limit"]
        )
        return Response(shapes.found_json(page))


class SearchCancel(AdminView):
    """Stopping a search."""

    rights = {"POST": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="search_cancel",
        summary="Cancel a search",
        description="It stops within a second; what it found stays. Twice is harmless.",
        request=None,
        responses={200: shapes.SearchStateSerializer, **TROUBLES},
    )
    def post(self, _request: Request, cluster: str, topic: str, key: str) -> Response:
        job = searching.cancel_search(self.actor, self.cluster(cluster), topic, key)
        return Response(shapes.search_json(job))


class SearchResume(AdminView):
    """Going on with a search."""

    rights = {"POST": Right.MESSAGES_READ}

    @extend_schema(
        operation_id="search_resume",
        summary="Resume a search where it stopped",
        request=None,
        responses={200: shapes.SearchStateSerializer, **TROUBLES},
    )
    def post(self, _request: Request, cluster: str, topic: str, key: str) -> Response:
        job = searching.resume_search(self.actor, self.cluster(cluster), topic, key)
        return Response(shapes.search_json(job))


def _file(name: str, content_type: str, content: bytes) -> HttpResponse:
    response = HttpResponse(content, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


_RECORDS: Final = "admin/v1/clusters/<slug:cluster>/topics/<name:topic>/records"
_RECORD: Final = f"{_RECORDS}/<int:partition>/<int:offset>"
_SEARCH: Final = f"{_RECORDS}/searches/<slug:key>"
urlpatterns: Any = [
    path(_RECORDS, Records.as_view(), name="topic_records"),
    path(f"{_RECORDS}/export", RecordExport.as_view(), name="records_export"),
    path(_RECORD, Record.as_view(), name="record"),
    path(f"{_RECORD}/<slug:part>", RecordPart.as_view(), name="record_part"),
    path(f"{_RECORDS}/searches", Searches.as_view(), name="searches"),
    path(_SEARCH, Search.as_view(), name="search"),
    path(f"{_SEARCH}/found", SearchFound.as_view(), name="search_found"),
    path(f"{_SEARCH}/cancel", SearchCancel.as_view(), name="search_cancel"),
    path(f"{_SEARCH}/resume", SearchResume.as_view(), name="search_resume"),
]
