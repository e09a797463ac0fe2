"""The operations over HTTP: a table of routes, and from a request to an answer or a problem.

Not here: what the operations do (putting, reading), the OpenAPI document (openapi, which is checked
against this table). int64 are texts in JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import structlog
from aiohttp import web

from broker.config.gateway import GatewaySettings
from broker.gateway.access_log import AccessLog
from broker.gateway.columns import parse_messages
from broker.gateway.health import Health
from broker.gateway.hosts import Hosts
from broker.gateway.lane import Answer as Stored
from broker.gateway.message import (
    Message,
    check_text,
    check_topic,
    header_row,
    parse_batch,
    parse_json,
    parse_message,
    parse_topic,
    unknown_field,
)
from broker.gateway.openapi import document as openapi_document
from broker.gateway.problem import Problem
from broker.gateway.putting import Putting
from broker.gateway.reading import (
    BYTES_DEFAULT,
    MESSAGES_DEFAULT,
    MESSAGES_MAX,
    FetchQuery,
    Reading,
    parse_int,
    parse_offset,
)
from broker.gateway.server import Answer, problem_head
from broker.headers import TRACEPARENT
from broker.metrics import Distribution, GatewayMetrics, Value
from broker.model import INT32_MAX, INT64_MAX, TopicPartition, format_uuid
from broker.ports import Clock, IdSource

JSON: Final = "application/json"
GROUP_BYTES_MAX: Final = 249
WAIT_MS_DEFAULT: Final = 0
SLICE: Final = 200
"""Messages of a batch that are looked at before other requests have their turn."""
FETCH_FIELDS: Final = ("topic", "partition", "offset", "maxMessages", "maxBytes", "waitMs")
COMMIT_FIELDS: Final = ("group", "topic", "partition", "offset")

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}\Z")
_quote: Final = json.encoder.encode_basestring_ascii  # what json.dumps calls for a text
_log = structlog.get_logger("hermes.gateway")


class Reply(NamedTuple):
    """What a handler gives back: a status, and a document or bytes."""

    status: int
    body: bytes
    content_type: str = JSON


class Route(NamedTuple):
    """An operation. `handle` gets the API and the request."""

    operation: str
    method: str
    path: str
    handle: Callable[[Api, web.BaseRequest], Awaitable[Reply]]


class Services(NamedTuple):
    """What the operations need; there once the ids are read."""

    putting: Putting
    reading: Reading


class Api:
    """One for the process. `services` is None until messages can be accepted, with the reason in
    `health`.
    """

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        health: Health,
        access_log: AccessLog,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.health = health
        self.services: Services | None = None
        self._clock = clock
        self._ids = ids
        self._access_log = access_log
        self._request_bytes = 0
        self._counts: dict[tuple[str, int], tuple[Value, Distribution]] = {}
        self._hosts = Hosts(settings)
        self._openapi = json.dumps(openapi_document(settings)).encode()

    async def handle(self, request: web.BaseRequest) -> Answer:
        """The answer to any request. Cancelled when the client leaves."""
        started_ms = self._clock.monotonic_ms()
        request_id, route, code = "", None, ""
        try:
            request_id = self._request_id(request)
            whole = None if request.raw_path.startswith("/") else request.url
            self._hosts.check(request.headers, request.rel_url.raw_path, whole=whole)
            route = find_route(request)
            reply = await route.handle(self, request)
            head = f"Content-Type: {reply.content_type}\r\nX-Request-Id: {request_id}\r\n"
            answer = Answer(reply.status, head, reply.body)
        except Problem as problem:
            request_id = request_id or format_uuid(self._ids.uuid())
            answer, code = self._problem(request, problem, request_id), problem.kind.code
        except Exception as error:  # noqa: BLE001 - the root of a request
            _log.error("a request failed", request_id=request_id, exc_info=error)
            bug = Problem("INTERNAL_ERROR", "the gateway failed; its log says why")
            answer, code = self._problem(request, bug, request_id), bug.kind.code
        seconds = (self._clock.monotonic_ms() - started_ms) / 1000
        operation = route.operation if route is not None else "none"
        self._count(operation, answer.status, seconds)
        path = route.path if route is not None else "-"
        method = request.method if route is not None else "-"
        self._access_log.add(method, path, answer.status, request_id, seconds, code)
        return answer

    def _request_id(self, request: web.BaseRequest) -> str:
        given = request.headers.get("X-Request-Id")
        if given is None:
            return format_uuid(self._ids.uuid())
        if _REQUEST_ID.match(given) is None:
            detail = "X-Request-Id: must be 1 to 128 letters, digits or . _ : / + = @ -"
            raise Problem("INVALID_FIELD", detail, field="X-Request-Id")
        return given

    def _problem(self, request: web.BaseRequest, problem: Problem, request_id: str) -> Answer:
        self.metrics.problems_total.add(1, code=problem.kind.code)
        head = problem_head(problem, request_id)
        answer = Answer(problem.kind.status, head, problem.body(request_id))
        if not request.content.is_eof():
            answer.force_close()  # its body is not read: it may be as large as it claims
        return answer

    def _count(self, operation: str, status: int, seconds: float) -> None:
        children = self._counts.get((operation, status))
        if children is None:
            children = self._counts[operation, status] = (
                self.metrics.requests_total.labels(operation=operation, status=str(status)),
                self.metrics.request_duration_seconds.labels(operation=operation),
            )
        children[0].value += 1
        children[1].observe(seconds)

    def ready(self) -> Services:
        """Raises Problem while messages cannot be accepted."""
        if self.services is None:
            raise Problem("NOT_READY", "; ".join(self.health.reasons) or "the gateway starts")
        return self.services

    async def read_json(self, request: web.BaseRequest) -> Any:
        """The body. Raises Problem."""
        media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media_type != JSON:
            found = media_type or "nothing"
            raise Problem(
                "UNSUPPORTED_MEDIA_TYPE",
                f"Content-Type must be {JSON}, found {found[:80]!r}",
                headers={"Accept": JSON},
            )
        encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding != "identity":
            raise Problem(
                "UNSUPPORTED_MEDIA_TYPE",
                f"Content-Encoding {encoding[:80]!r} is not taken: send the body as it is",
                headers={"Accept-Encoding": "identity"},
            )
        size = request.content_length
        if size is None:
            _check_transfer(request.headers.get("Transfer-Encoding", "chunked"))
        elif size > self.settings.request_bytes_max:
            raise self._too_large(size)
        await self._expect(request)
        return parse_json(await self._read(request))

    async def _expect(self, request: web.BaseRequest) -> None:
        expected = request.headers.get("Expect")
        if expected is None:
            return
        if expected.strip().lower() != "100-continue":
            raise Problem("EXPECTATION_FAILED", "only Expect: 100-continue can be met")
        if request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _read(self, request: web.BaseRequest) -> bytes:
        held = request.content_length or self.settings.request_bytes_max
        if self._request_bytes + held > self.settings.inflight_bytes_max:
            raise Problem(
                "THROTTLED",
                f"bodies of {self._request_bytes} bytes are being read (inflight.bytes.max): send "
                "again after Retry-After",
            )
        self._request_bytes += held
        self.metrics.inflight_bytes.set(self._request_bytes)
        try:
            if request.content.is_eof():
                return await request.read()
            async with asyncio.timeout(self.settings.request_read_ms / 1000):
                return await request.read()
        except TimeoutError:
            detail = f"the body did not arrive within {self.settings.request_read_ms} ms"
            raise Problem("REQUEST_TIMEOUT", detail) from None
        except web.HTTPRequestEntityTooLarge:
            raise self._too_large(None) from None
        except (ConnectionError, web.RequestPayloadError) as error:
            raise Problem("INVALID_REQUEST", f"the body cannot be read: {error}") from None
        finally:
            self._request_bytes -= held
            self.metrics.inflight_bytes.set(self._request_bytes)

    def _too_large(self, size: int | None) -> Problem:
        found = "" if size is None else f", this one has {size}"
        limit = self.settings.request_bytes_max
        detail = f"a body may have {limit} bytes (request.bytes.max){found}: send smaller batches"
        return Problem("BODY_TOO_LARGE", detail)


def _check_transfer(encoding: str) -> None:
    if encoding.strip().lower() != "chunked":
        raise Problem(
            "UNSUPPORTED_MEDIA_TYPE",
            f"Transfer-Encoding {encoding[:60]!r} is not taken: send chunks, or the body as it is",
        )


def find_route(request: web.BaseRequest) -> Route:
    """The route of a request. Raises Problem: 404, 405."""
    path = request.rel_url.raw_path
    methods = _BY_PATH.get(path)
    if methods is None:
        known = ", ".join(_BY_PATH)
        raise Problem("NOT_FOUND", f"the addresses are {known}")
    method = "GET" if request.method == "HEAD" else request.method
    route = methods.get(method)
    if route is None:
        allowed = ", ".join(methods)
        detail = f"{path} takes {allowed}"
        raise Problem("METHOD_NOT_ALLOWED", detail, headers={"Allow": allowed})
    return route


async def put_messages(api: Api, request: web.BaseRequest) -> Reply:
    """PUT /api/v1/messages: one message, or a batch of them."""
    services = api.ready()
    document = await api.read_json(request)
    trace = _trace_row(request.headers.get("traceparent"))
    if type(document) is dict and "messages" in document:
        return await _put_batch(api, services, document, trace)
    message = parse_message(document, trace=trace)
    ids: list[str] = []
    (outcome,) = await services.putting.put(((message,),), 1, ids)
    if type(outcome) is not Stored:
        raise outcome if isinstance(outcome, Problem) else _unknown(api, ids[0])
    text = _stored_text(message.topic, ids[0], outcome)
    return Reply(202 if outcome.offset < 0 else 200, text.encode())


async def _put_batch(
    api: Api, services: Services, document: dict[str, Any], trace: bytes | None
) -> Reply:
    rows, topic, acks = parse_batch(document, api.settings.batch_messages_max)
    count = len(rows)
    ids: list[str] = []
    topics: list[str | None] = []
    given: dict[int, str | None] = {}
    parts = _parsed(rows, topic, acks, trace, topics, given)
    outcomes = await services.putting.put(parts, count, ids)
    texts = []
    failed = 0
    for index, (sent_to, message_id, outcome) in enumerate(zip(topics, ids, outcomes, strict=True)):
        if type(outcome) is Stored and sent_to is not None:
            partition, at, seen, is_duplicate = outcome
            if at >= 0 and seen >= 0 and not is_duplicate:  # nearly all
                texts.append(
                    f'{{"topic":"{sent_to}","partition":{partition},"queueOffset":"{at}","messageId":'
                    f'{_quote(message_id)},"highWatermark":"{seen}","duplicate":false}}'
                )
            else:
                texts.append(_stored_text(sent_to, message_id, outcome))
            continue
        refusal = outcome if isinstance(outcome, Problem) else _unknown(api, message_id)
        api.metrics.problems_total.add(1, code=refusal.kind.code)
        failed += 1
        found = refusal.document()
        if "field" in found and sent_to is not None:
            found["field"] = f"messages[{index}].{found['field']}"
        item = {"messageId": message_id or given[index], "problem": found}
        texts.append(json.dumps(item))
    counts = f'"stored":{count - failed},"failed":{failed}'
    text = f'{{"results":[{",".join(texts)}],{counts}}}'
    return Reply(207 if failed else 200, text.encode())


def _parsed(
    rows: list[Any],
    topic: str | None,
    acks: int,
    trace: bytes | None,
    topics: list[str | None],
    given: dict[int, str | None],
) -> Iterator[Sequence[Message | Problem]]:
    """Each row's message, or what is wrong with it, `SLICE` rows at a time. `topics` gets where
    they go, None where that cannot be read; then `given` has the id. A row is let go when it was
    looked at: what lives through a request is what the collector looks through.
    """
    for begin in range(0, len(rows), SLICE):
        part = rows[begin : begin + SLICE]
        rows[begin : begin + SLICE] = repeat(None, len(part))
        usual = parse_messages(part, topic=topic, acks=acks, trace=trace)
        if usual is not None:
            topics += [message.topic for message in usual]
            yield usual
            continue
        found: list[Message | Problem] = []
        for index, row in enumerate(part, begin):
            try:
                message = parse_message(row, topic=topic, acks=acks, trace=trace)
                found.append(message)
                topics.append(message.topic)
            except Problem as problem:
                found.append(problem.inside(f"messages[{index}]"))
                topics.append(None)
                given[index] = _given_id(row)
        yield found


def _given_id(row: Any) -> str | None:
    """The id of a message that could not be read, for its client to find it by."""
    given = row.get("messageId") if type(row) is dict else None
    return given if type(given) is str else None


def _stored_text(topic: str, message_id: str, answer: Stored) -> str:
    """The document of an answer; a topic's name needs no escapes."""
    partition, at, seen, is_duplicate = answer
    offset = f'"{at}"' if at >= 0 else "null"
    watermark = f'"{seen}"' if seen >= 0 else "null"
    return (
        f'{{"topic":"{topic}","partition":{partition},"queueOffset":{offset},'
        f'"messageId":{_quote(message_id)},"highWatermark":{watermark},'
        f'"duplicate":{"true" if is_duplicate else "false"}}}'
    )


def _unknown(api: Api, message_id: str) -> Problem:
    return Problem(
        "OUTCOME_UNKNOWN",
        f"message {message_id!r} was sent, but the cluster did not answer within "
        f"{api.settings.request_timeout_ms} ms: it may be stored or not. Send it again with the "
        "same messageId: it is stored once",
        more={"messageId": message_id},
    )


_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")


def _trace_row(trace: str | None) -> bytes | None:
    """The caller's trace as a record header, unless it is none."""
    if trace is None or _TRACEPARENT.match(trace) is None:
        return None
    return header_row(TRACEPARENT.name.encode(), trace.encode())


async def fetch_messages(api: Api, request: web.BaseRequest) -> Reply:
    """GET /api/v1/messages/fetch: messages of a partition, waiting for them if asked to."""
    services = api.ready()
    document = await services.reading.fetch(parse_fetch(request.rel_url.raw_query_string, api))
    return Reply(200, json.dumps(document, separators=(",", ":")).encode())


def parse_fetch(query: str, api: Api) -> FetchQuery:
    """What a query string asks for. Raises Problem."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError as error:
        raise Problem("INVALID_REQUEST", f"the query cannot be read: {error}") from None
    values = dict(pairs)
    if len(values) < len(pairs):
        raise Problem("INVALID_REQUEST", "a parameter of the query is given twice: give it once")
    if not set(FETCH_FIELDS).issuperset(values):
        raise unknown_field(values, FETCH_FIELDS)
    settings = api.settings
    topic = check_topic(parse_topic(values), "topic")
    partition = parse_int(values.get("partition"), "partition", maximum=INT32_MAX)
    offset = parse_offset(values.get("offset"))
    messages_max = parse_int(
        values.get("maxMessages"),
        "maxMessages",
        minimum=1,
        maximum=MESSAGES_MAX,
        default=MESSAGES_DEFAULT,
    )
    bytes_max = parse_int(
        values.get("maxBytes"),
        "maxBytes",
        minimum=1,
        maximum=settings.fetch_bytes_max,
        default=min(BYTES_DEFAULT, settings.fetch_bytes_max),
    )
    wait_ms = parse_int(
        values.get("waitMs"), "waitMs", maximum=settings.fetch_wait_ms_max, default=WAIT_MS_DEFAULT
    )
    where = TopicPartition(topic, partition)
    return FetchQuery(where, offset, messages_max, bytes_max, wait_ms)


async def commit_offset(api: Api, request: web.BaseRequest) -> Reply:
    """POST /api/v1/offsets/commit: the next offset that a group reads."""
    services = api.ready()
    document = await api.read_json(request)
    if type(document) is not dict:
        raise Problem("INVALID_REQUEST", "the body must be an object")
    if not set(COMMIT_FIELDS).issuperset(document):
        raise unknown_field(document, COMMIT_FIELDS)
    if "group" not in document:
        raise Problem("MISSING_FIELD", "group: is required", field="group")
    group = check_text(document["group"], "group", GROUP_BYTES_MAX).decode()
    topic = parse_topic(document)
    partition = parse_int(document.get("partition"), "partition", maximum=INT32_MAX)
    offset = parse_int(document.get("offset"), "offset", maximum=INT64_MAX)
    await services.reading.commit(group, TopicPartition(topic, partition), offset)
    answer = {"group": group, "topic": topic, "partition": partition, "offset": str(offset)}
    return Reply(200, json.dumps(answer).encode())


async def get_openapi(api: Api, request: web.BaseRequest) -> Reply:
    """GET /api/v1/openapi.json."""
    return Reply(200, api._openapi)  # noqa: SLF001 - a handler is part of the API


async def get_healthz(api: Api, request: web.BaseRequest) -> Reply:
    """GET /healthz: the event loop runs."""
    return Reply(200, b"ok\n", "text/plain; charset=utf-8")


async def get_readyz(api: Api, request: web.BaseRequest) -> Reply:
    """GET /readyz: messages are accepted, or why not, a reason a line."""
    reasons = api.health.reasons
    if reasons:
        text = "".join(f"{reason}\n" for reason in reasons)
        return Reply(503, text.encode(), "text/plain; charset=utf-8")
    return Reply(200, b"ready\n", "text/plain; charset=utf-8")


async def get_metrics(api: Api, request: web.BaseRequest) -> Reply:
    """GET /metrics: Prometheus text."""
    return Reply(200, api.health.exposition(), api.health.content_type)


ROUTES: Final = (
    Route("putMessages", "PUT", "/api/v1/messages", put_messages),
    Route("fetchMessages", "GET", "/api/v1/messages/fetch", fetch_messages),
    Route("commitOffset", "POST", "/api/v1/offsets/commit", commit_offset),
    Route("getOpenApi", "GET", "/api/v1/openapi.json", get_openapi),
    Route("getHealth", "GET", "/healthz", get_healthz),
    Route("getReadiness", "GET", "/readyz", get_readyz),
    Route("getMetrics", "GET", "/metrics", get_metrics),
)
_BY_PATH: Final[Mapping[str, Mapping[str, Route]]] = {
    path: {route.method: route for route in ROUTES if route.path == path}
    for path in dict.fromkeys(route.path for route in ROUTES)
}
