"""Refusals as RFC 9457 problems: one table of codes, and how failures of the cluster read as codes.

Pure. A problem names its code (for programs), a sentence about what happened and what to do, and
where it applies the field of the request. `retry_after_s` becomes the header Retry-After.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker.client.failure import BrokerRefusal, ClientError, ConnectionLost, TimedOut
from broker.errors import ErrorCode

CONTENT_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:hermesmq:problem:"


class Kind(NamedTuple):
    """A code's row: its status, its title, and the seconds after which a repeat makes sense (None:
    never unchanged).
    """

    code: str
    status: int
    title: str
    retry_after_s: int | None = None


_ROWS: Final = (
    Kind("INVALID_REQUEST", 400, "The request cannot be read"),
    Kind("INVALID_FIELD", 400, "A field is wrong"),
    Kind("UNKNOWN_FIELD", 400, "A field is not known"),
    Kind("MISSING_FIELD", 400, "A field is missing"),
    Kind("TOPIC_NOT_ALLOWED", 403, "This topic belongs to the cluster itself"),
    Kind("HOST_NOT_ALLOWED", 403, "This gateway has no such name"),
    Kind("ORIGIN_NOT_ALLOWED", 403, "Pages of other origins are not answered"),
    Kind("NOT_FOUND", 404, "There is nothing at this address"),
    Kind("UNKNOWN_TOPIC", 404, "There is no such topic"),
    Kind("UNKNOWN_PARTITION", 404, "The topic has no such partition"),
    Kind("METHOD_NOT_ALLOWED", 405, "This address does not take this method"),
    Kind("REQUEST_TIMEOUT", 408, "The request did not arrive in time"),
    Kind("MESSAGE_ID_CONFLICT", 409, "Another message has this id"),
    Kind("GROUP_ACTIVE", 409, "The group has members that read"),
    Kind("BODY_TOO_LARGE", 413, "The body is too large"),
    Kind("MESSAGE_TOO_LARGE", 413, "The message is too large"),
    Kind("UNSUPPORTED_MEDIA_TYPE", 415, "The body must be plain JSON"),
    Kind("OFFSET_OUT_OF_RANGE", 416, "The partition holds no such offset"),
    Kind("EXPECTATION_FAILED", 417, "This expectation is not met"),
    Kind("MESSAGE_REFUSED", 422, "The topic does not take this message"),
    Kind("THROTTLED", 429, "Too much at once", 1),
    Kind("HEADERS_TOO_LARGE", 431, "The request's head is too large"),
    Kind("INTERNAL_ERROR", 500, "The gateway has a bug"),
    Kind("CLUSTER_REFUSED", 502, "The cluster refused"),
    Kind("NOT_READY", 503, "The gateway is starting or stopping", 1),
    Kind("LEADER_NOT_AVAILABLE", 503, "No leader can be reached", 1),
    Kind("REPLICA_LAGGING", 503, "Too few replicas are in sync", 2),
    Kind("COORDINATOR_NOT_AVAILABLE", 503, "The group's coordinator is not available", 1),
    Kind("OUTCOME_UNKNOWN", 504, "It is not known yet whether the message is stored", 1),
    Kind("DISK_FULL", 507, "The broker's disk has too little room, or failed", 30),
)
KINDS: Final[Mapping[str, Kind]] = {row.code: row for row in _ROWS}


class Problem(Exception):
    """A refusal. `field` is where in the request, as `messages[3].topic`; `more` are further
    members.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = KINDS[code]
        self.detail = detail
        self.field = field
        self.retry_after_s = self.kind.retry_after_s if retry_after_s is None else retry_after_s
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def inside(self, where: str) -> Problem:
        """The same problem of a part, `messages[3]`."""
        field = f"{where}.{self.field}" if self.field is not None else where
        self.detail = f"{where}.{self.detail}" if self.field is not None else self.detail
        self.field = field
        return self

    def document(self, *, request_id: str | None = None) -> dict[str, Any]:
        """The members of application/problem+json."""
        found: dict[str, Any] = {
            "type": TYPE_PREFIX + self.kind.code.lower().replace("_", "-"),
            "title": self.kind.title,
            "status": self.kind.status,
            "code": self.kind.code,
            "detail": self.detail,
        }
        if self.field is not None:
            found["field"] = self.field
        if self.retry_after_s is not None:
            found["retryAfterSeconds"] = self.retry_after_s
        found.update(self.more)
        if request_id is not None:
            found["requestId"] = request_id
        return found

    def body(self, request_id: str) -> bytes:
        return json.dumps(self.document(request_id=request_id)).encode()


_BY_ERROR: Final[Mapping[ErrorCode, tuple[str, str]]] = {
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: (
        "THROTTLED",
        "the cluster's quota for this gateway is used up: send again after Retry-After",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "REPLICA_LAGGING",
        "fewer replicas are in sync than the topic demands: nothing was stored, send again later",
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: (
        "DISK_FULL",
        "the broker's disk has too little room, or failed (its log and metrics say which): nothing "
        "was stored; make room (shorten retention, delete topics), then send again",
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (
        "MESSAGE_TOO_LARGE",
        "larger than the topic's max.message.bytes or max.record.bytes: send less, or raise that "
        "setting",
    ),
    ErrorCode.RECORD_LIST_TOO_LARGE: (
        "MESSAGE_TOO_LARGE",
        "larger than a segment of the topic: send less, or raise segment.bytes",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UNKNOWN_TOPIC",
        "create the topic first, or correct its name: this gateway creates none",
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: ("UNKNOWN_TOPIC", "the topic was deleted meanwhile"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "UNKNOWN_TOPIC",
        "no topic can have this name: letters, digits, '.', '_' and '-', at most 249 of them",
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "OFFSET_OUT_OF_RANGE",
        "ask from an offset that the partition holds, or from earliest or latest",
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "GROUP_ACTIVE",
        "its members commit their own offsets: stop them, then commit from outside",
    ),
    ErrorCode.ILLEGAL_GENERATION: (
        "GROUP_ACTIVE",
        "its members commit their own offsets: stop them, then commit from outside",
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: (
        "GROUP_ACTIVE",
        "its members commit their own offsets: stop them, then commit from outside",
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "COORDINATOR_NOT_AVAILABLE",
        "the coordinator is loading its groups: send again after Retry-After",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "COORDINATOR_NOT_AVAILABLE",
        "no broker coordinates the group at present: send again after Retry-After",
    ),
    ErrorCode.NOT_COORDINATOR: (
        "COORDINATOR_NOT_AVAILABLE",
        "the group moves to another broker: send again after Retry-After",
    ),
}


_REFUSED_FOR_GOOD: Final = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})
"""The cluster's own words say why."""


def problem_of(error: ClientError, subject: str, *, field: str | None = None) -> Problem:
    """How a failed call to the cluster is answered. `subject` is what was asked, for the detail."""
    if isinstance(error, BrokerRefusal):
        row = _BY_ERROR.get(error.code)
        if row is not None:
            code, advice = row
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and error.message:
                advice = error.message  # says which it is, low, full or failed, and what to do
            return Problem(code, f"{subject}: {advice}", field=field)
        if error.code in _REFUSED_FOR_GOOD:
            return Problem("MESSAGE_REFUSED", f"{subject}: {error}", field=field)
        if not error.is_retriable:
            detail = f"{subject}: the cluster answered {error.code.name} ({error})"
            return Problem("CLUSTER_REFUSED", detail, field=field)
    if isinstance(error, ConnectionLost | TimedOut | BrokerRefusal):
        detail = f"{subject}: {error}. Send again after Retry-After"
        return Problem("LEADER_NOT_AVAILABLE", detail, field=field)
    return Problem("CLUSTER_REFUSED", f"{subject}: {error}", field=field)
