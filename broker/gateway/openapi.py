"""The OpenAPI 3.1 document of the API. A test holds it against the routes, the fields and the codes
that the code knows, and calls every example.
"""

from __future__ import annotations

from typing import Any, Final

from broker.config.gateway import GatewaySettings
from broker.gateway.message import (
    HEADER_NAME_BYTES_MAX,
    HEADER_VALUE_BYTES_MAX,
    HEADERS_MAX,
    KEY_BYTES_MAX,
    MESSAGE_ID_BYTES_MAX,
    TOPIC_PATTERN,
)
from broker.gateway.problem import CONTENT_TYPE, KINDS
from broker.gateway.reading import MESSAGES_DEFAULT, MESSAGES_MAX

Json = dict[str, Any]

_OFFSET: Final = {"type": "string", "pattern": "^[0-9]{1,19}$", "examples": ["41"]}
_TOPIC: Final = {"type": "string", "pattern": TOPIC_PATTERN, "examples": ["order-events"]}
_PARTITION: Final = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "examples": [3]}
_ACK_MODE: Final = {
    "enum": ["ALL", "1", "0"],
    "default": "ALL",
    "description": "ALL: answered when every in-sync replica has it. 1: when the leader has it. "
    "0: at once, without an offset.",
}
_MESSAGE_EXAMPLE: Final = {
    "topic": "order-events",
    "shardingKey": "order-881",
    "messageId": "0b9f6f8e-5d0c-4f4e-9b51-0d7f3a7f3c11",
    "headers": {"event-type": "OrderCreated"},
    "body": "eyJvcmRlciI6ODgxfQ==",
    "ackMode": "ALL",
}
_STORED_EXAMPLE: Final = {
    "topic": "order-events",
    "partition": 3,
    "queueOffset": "41",
    "messageId": "0b9f6f8e-5d0c-4f4e-9b51-0d7f3a7f3c11",
    "highWatermark": "42",
    "duplicate": False,
}
_BATCH_EXAMPLE: Final = {
    "topic": "order-events",
    "messages": [
        {"shardingKey": "order-881", "messageId": "order-881-paid", "body": "cGFpZA=="},
        {"shardingKey": "order-882", "body": None},
    ],
}
_RESULTS_EXAMPLE: Final = {
    "results": [
        {**_STORED_EXAMPLE, "messageId": "order-881-paid"},
        {**_STORED_EXAMPLE, "partition": 1, "queueOffset": "7", "highWatermark": "8"},
    ],
    "stored": 2,
    "failed": 0,
}
_FETCHED_EXAMPLE: Final = {
    "topic": "order-events",
    "partition": 3,
    "offset": "41",
    "nextOffset": "42",
    "highWatermark": "42",
    "logStartOffset": "0",
    "messages": [
        {
            "queueOffset": "41",
            "timestampMs": "1767225600000",
            "messageId": "order-881-paid",
            "shardingKey": "order-881",
            "headers": [{"name": "message-id", "value": "order-881-paid"}],
            "body": "cGFpZA==",
        }
    ],
}
_COMMIT_EXAMPLE: Final = {
    "group": "billing",
    "topic": "order-events",
    "partition": 3,
    "offset": "42",
}
FOREIGN_CODES: Final = ("HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED")
"""Of every operation."""
PUT_CODES: Final = (
    *FOREIGN_CODES,
    *("INVALID_REQUEST", "INVALID_FIELD", "UNKNOWN_FIELD", "MISSING_FIELD", "TOPIC_NOT_ALLOWED"),
    *("UNKNOWN_TOPIC", "REQUEST_TIMEOUT", "MESSAGE_ID_CONFLICT", "BODY_TOO_LARGE"),
    *("MESSAGE_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "EXPECTATION_FAILED", "THROTTLED"),
    *("MESSAGE_REFUSED",),
    *("INTERNAL_ERROR", "CLUSTER_REFUSED", "NOT_READY", "LEADER_NOT_AVAILABLE"),
    *("REPLICA_LAGGING", "OUTCOME_UNKNOWN", "DISK_FULL"),
)
FETCH_CODES: Final = (
    *FOREIGN_CODES,
    *("INVALID_REQUEST", "INVALID_FIELD", "UNKNOWN_FIELD", "MISSING_FIELD", "TOPIC_NOT_ALLOWED"),
    *("UNKNOWN_TOPIC", "UNKNOWN_PARTITION", "OFFSET_OUT_OF_RANGE", "THROTTLED", "INTERNAL_ERROR"),
    *("CLUSTER_REFUSED", "NOT_READY", "LEADER_NOT_AVAILABLE", "DISK_FULL", "MESSAGE_TOO_LARGE"),
)
COMMIT_CODES: Final = (
    *FOREIGN_CODES,
    *("INVALID_REQUEST", "INVALID_FIELD", "UNKNOWN_FIELD", "MISSING_FIELD", "TOPIC_NOT_ALLOWED"),
    *("UNKNOWN_TOPIC", "UNKNOWN_PARTITION", "REQUEST_TIMEOUT", "GROUP_ACTIVE", "BODY_TOO_LARGE"),
    *("UNSUPPORTED_MEDIA_TYPE", "EXPECTATION_FAILED", "THROTTLED", "INTERNAL_ERROR"),
    *("CLUSTER_REFUSED", "NOT_READY", "LEADER_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE"),
    *("DISK_FULL",),
)
HTTP_CODES: Final = ("NOT_FOUND", "METHOD_NOT_ALLOWED", "HEADERS_TOO_LARGE")
"""Of no operation: answered before one is found."""


def document(settings: GatewaySettings) -> Json:
    """The document, with the limits that are in force."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "HermesMQ gateway",
            "version": "1",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Put, fetch and commit over HTTP. Offsets are decimal texts, since "
            "JSON numbers lose digits above 2^53. A messageId that is repeated on a topic within "
            f"{settings.dedup_window_ms / 1000:g} s gets the first answer. Every answer carries "
            "X-Request-Id: the one that was sent, or a new one.",
        },
        "servers": [{"url": "/"}],
        "paths": {
            "/api/v1/messages": {"put": _put(settings)},
            "/api/v1/messages/fetch": {"get": _fetch(settings)},
            "/api/v1/offsets/commit": {"post": _commit()},
            "/api/v1/openapi.json": {
                "get": _plain("getOpenApi", "This document", "application/json")
            },
            "/healthz": {"get": _plain("getHealth", "The process runs", "text/plain")},
            "/readyz": {"get": _readiness()},
            "/metrics": {"get": _plain("getMetrics", "Prometheus text", "text/plain")},
        },
        "components": {
            "schemas": _schemas(settings),
            "parameters": {
                "RequestId": {
                    "name": "X-Request-Id",
                    "in": "header",
                    "description": "Logged and returned; made when absent.",
                    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:/+=@-]{1,128}$"},
                }
            },
            "headers": {
                "RequestId": {"schema": {"type": "string"}},
                "RetryAfter": {
                    "description": "Seconds after which a repeat makes sense.",
                    "schema": {"type": "integer"},
                },
            },
        },
    }


def _put(settings: GatewaySettings) -> Json:
    return {
        "operationId": "putMessages",
        "summary": "Store one message, or a batch",
        "description": "The partition is that of Java's default partitioner for the shardingKey; "
        "messages without one are spread. The messages of a batch are stored or refused one by "
        f"one; at most {settings.batch_messages_max}. Repeat with the same messageId after 429, "
        "503, 504 and 507, and after a connection that broke: it is stored once.",
        "parameters": [{"$ref": "#/components/parameters/RequestId"}],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "oneOf": [
                            {"$ref": "#/components/schemas/Message"},
                            {"$ref": "#/components/schemas/Batch"},
                        ]
                    },
                    "examples": {
                        "one": {"value": _MESSAGE_EXAMPLE},
                        "batch": {"value": _BATCH_EXAMPLE},
                    },
                }
            },
        },
        "responses": {
            "200": _answer(
                "Stored, or stored before under this id",
                {
                    "oneOf": [
                        {"$ref": "#/components/schemas/Stored"},
                        {"$ref": "#/components/schemas/Results"},
                    ]
                },
                {"one": {"value": _STORED_EXAMPLE}, "batch": {"value": _RESULTS_EXAMPLE}},
            ),
            "202": _answer(
                "Taken, not stored yet (ackMode 0)", {"$ref": "#/components/schemas/Stored"}
            ),
            "207": _answer(
                "Some of the batch are refused", {"$ref": "#/components/schemas/Results"}
            ),
            **_problems(PUT_CODES),
        },
    }


def _fetch(settings: GatewaySettings) -> Json:
    def parameter(name: str, schema: Json, *, is_required: bool = False) -> Json:
        return {"name": name, "in": "query", "required": is_required, "schema": schema}

    def number(minimum: int, maximum: int, default: int) -> Json:
        return {"type": "integer", "minimum": minimum, "maximum": maximum, "default": default}

    offset = {"anyOf": [_OFFSET, {"enum": ["earliest", "latest"]}]}
    bytes_max = number(1, settings.fetch_bytes_max, min(1 << 20, settings.fetch_bytes_max))
    return {
        "operationId": "fetchMessages",
        "summary": "Read messages of a partition",
        "description": "Answers at once when there are messages from `offset` on, else waits up "
        "to waitMs. Ask again from nextOffset. maxBytes bounds what is asked of the cluster and "
        "what is handed out, unpacked; a message that is larger comes alone.",
        "parameters": [
            parameter("topic", _TOPIC, is_required=True),
            parameter("partition", _PARTITION, is_required=True),
            parameter("offset", offset, is_required=True),
            parameter("maxMessages", number(1, MESSAGES_MAX, MESSAGES_DEFAULT)),
            parameter("maxBytes", bytes_max),
            parameter("waitMs", number(0, settings.fetch_wait_ms_max, 0)),
            {"$ref": "#/components/parameters/RequestId"},
        ],
        "responses": {
            "200": _answer(
                "Messages, perhaps none",
                {"$ref": "#/components/schemas/Fetched"},
                {"one": {"value": _FETCHED_EXAMPLE}},
            ),
            **_problems(FETCH_CODES),
        },
    }


def _commit() -> Json:
    return {
        "operationId": "commitOffset",
        "summary": "Store the next offset that a group reads",
        "description": "Refused while the group has members: they commit their own offsets.",
        "parameters": [{"$ref": "#/components/parameters/RequestId"}],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/Commit"},
                    "examples": {"one": {"value": _COMMIT_EXAMPLE}},
                }
            },
        },
        "responses": {
            "200": _answer(
                "Stored",
                {"$ref": "#/components/schemas/Committed"},
                {"one": {"value": _COMMIT_EXAMPLE}},
            ),
            **_problems(COMMIT_CODES),
        },
    }


def _plain(operation: str, summary: str, media_type: str) -> Json:
    schema = {"type": "object"} if media_type.endswith("json") else {"type": "string"}
    content = {media_type: {"schema": schema}}
    return {
        "operationId": operation,
        "summary": summary,
        "parameters": [{"$ref": "#/components/parameters/RequestId"}],
        "responses": {
            "200": {"description": summary, "headers": _HEADERS, "content": content},
            **_problems(("INVALID_FIELD", *FOREIGN_CODES)),
        },
    }


def _readiness() -> Json:
    row = _plain("getReadiness", "Messages are accepted", "text/plain")
    row["responses"]["503"] = {
        "description": "Why not, a reason a line",
        "headers": _HEADERS,
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    return row


_HEADERS: Final = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}


def _answer(description: str, schema: Json, examples: Json | None = None) -> Json:
    content: Json = {"schema": schema}
    if examples:
        content["examples"] = examples
    return {
        "description": description,
        "headers": _HEADERS,
        "content": {"application/json": content},
    }


def _problems(codes: tuple[str, ...]) -> Json:
    """An answer per status, with an example per code."""
    found: Json = {}
    for code in codes:
        kind = KINDS[code]
        answer = found.setdefault(
            str(kind.status),
            {
                "description": "",
                "headers": dict(_HEADERS),
                "content": {
                    CONTENT_TYPE: {
                        "schema": {"$ref": "#/components/schemas/Problem"},
                        "examples": {},
                    }
                },
            },
        )
        titles = answer["description"]
        answer["description"] = f"{titles}; {kind.code}" if titles else kind.code
        if kind.retry_after_s is not None:
            answer["headers"]["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
        answer["content"][CONTENT_TYPE]["examples"][code] = {"value": _problem_example(code)}
    return found


def _problem_example(code: str) -> Json:
    kind = KINDS[code]
    row: Json = {
        "type": f"urn:hermesmq:problem:{code.lower().replace('_', '-')}",
        "title": kind.title,
        "status": kind.status,
        "code": code,
        "detail": f"{kind.title}: what happened and what to do.",
    }
    if kind.retry_after_s is not None:
        row["retryAfterSeconds"] = kind.retry_after_s
    return {**row, "requestId": "5Zq0bD3dQ0uR1m5o6J8n2A"}


def _schemas(settings: GatewaySettings) -> Json:
    message = _message_fields()
    commit = {
        "group": {"type": "string", "minLength": 1, "maxLength": 249},
        "topic": _TOPIC,
        "partition": _PARTITION,
        "offset": _OFFSET,
    }
    either = {"anyOf": [_OFFSET, {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}]}
    return {
        "Message": _object(message, required=["topic", "body"]),
        "Batch": _object(
            {
                "topic": {**_TOPIC, "description": "Of messages that name none."},
                "ackMode": _ACK_MODE,
                "messages": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": settings.batch_messages_max,
                    "items": _object(message, required=["body"]),
                },
            },
            required=["messages"],
        ),
        **_stored_schemas(),
        "Fetched": _fetched_schema(),
        "Commit": _object({**commit, "offset": either}),
        "Committed": _object(commit),
        "Problem": _problem_schema(),
    }


def _message_fields() -> Json:
    text = {"type": "string"}
    nullable = {"type": ["string", "null"]}
    return {
        "topic": _TOPIC,
        "shardingKey": {**nullable, "maxLength": KEY_BYTES_MAX},
        "messageId": {**nullable, "minLength": 1, "maxLength": MESSAGE_ID_BYTES_MAX},
        "headers": {
            "type": ["object", "null"],
            "maxProperties": HEADERS_MAX,
            "propertyNames": {"maxLength": HEADER_NAME_BYTES_MAX},
            "additionalProperties": {**text, "maxLength": HEADER_VALUE_BYTES_MAX},
        },
        "body": {
            **nullable,
            "contentEncoding": "base64",
            "description": "base64, or null for a message without a value",
        },
        "ackMode": _ACK_MODE,
    }


def _stored_schemas() -> Json:
    stored = {
        "topic": _TOPIC,
        "partition": _PARTITION,
        "queueOffset": {"anyOf": [_OFFSET, {"type": "null"}]},
        "messageId": {"type": "string"},
        "highWatermark": {"anyOf": [_OFFSET, {"type": "null"}]},
        "duplicate": {"type": "boolean"},
    }
    refused = {
        "messageId": {"type": ["string", "null"]},
        "problem": {"$ref": "#/components/schemas/Problem"},
    }
    either = [{"$ref": "#/components/schemas/Stored"}, _object(refused)]
    results = {
        "results": {"type": "array", "items": {"oneOf": either}},
        "stored": {"type": "integer"},
        "failed": {"type": "integer"},
    }
    return {"Stored": _object(stored), "Results": _object(results)}


def _problem_schema() -> Json:
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": text,
            "title": text,
            "status": {"type": "integer"},
            "code": {"enum": list(KINDS)},
            "detail": text,
            "field": text,
            "retryAfterSeconds": {"type": "integer"},
            "requestId": text,
        },
    }


def _fetched_schema() -> Json:
    text = {"type": "string"}
    nullable = {"type": ["string", "null"]}
    header = _object(
        {"name": text, "value": nullable, "valueBase64": text}, required=["name", "value"]
    )
    message = _object(
        {
            "queueOffset": _OFFSET,
            "timestampMs": {"type": "string", "pattern": "^-?[0-9]{1,19}$"},
            "messageId": nullable,
            "shardingKey": nullable,
            "shardingKeyBase64": text,
            "headers": {"type": "array", "items": header},
            "body": {**nullable, "contentEncoding": "base64"},
        },
        required=[
            *("queueOffset", "timestampMs", "messageId", "shardingKey", "headers", "body"),
        ],
    )
    return _object(
        {
            "topic": _TOPIC,
            "partition": _PARTITION,
            "offset": _OFFSET,
            "nextOffset": _OFFSET,
            "highWatermark": _OFFSET,
            "logStartOffset": {"anyOf": [_OFFSET, {"type": "null"}]},
            "messages": {"type": "array", "items": message},
        }
    )


def _object(properties: Json, *, required: list[str] | None = None) -> Json:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties) if required is None else required,
        "properties": properties,
    }
