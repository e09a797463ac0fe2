"""Examples for what has none of its own in the OpenAPI document: made from the shape of the answer
and from what the fields of this API are called. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NAME: Final = "Example"
DEPTH_MAX: Final = 8
VALUES: Final[Mapping[str, Any]] = {
    "account": "vera",
    "action": "set",
    "address": "10.0.0.7",
    "at": "2026-11-29T12:00:00Z",
    "client_id": "settlement-1",
    "cluster": "local",
    "committed": "17980",
    "count": 12,
    "detail": "",
    "end": "18230",
    "from_offset": "17980",
    "group": "settlement",
    "host": "127.0.0.1",
    "id": "7",
    "key": "order-42",
    "lag": "250",
    "leader": 0,
    "member_id": "settlement-1-3f2a",
    "name": "orders",
    "node": 0,
    "offset": "18229",
    "partition": 3,
    "partition_count": 12,
    "port": 9092,
    "reason": "",
    "start": "0",
    "started_by": "admin",
    "state": "Stable",
    "timestamp": "1764424800000",
    "to_offset": "0",
    "topic": "orders",
    "trouble": "",
    "value": "604800000",
}


def add_missing_examples(schema: dict[str, Any]) -> None:
    """Into every JSON body and successful JSON answer of `schema` that shows none."""
    for path_item in schema["paths"].values():
        for operation in path_item.values():
            _add(schema, operation.get("requestBody", {}).get("content", {}))
            for status, answer in operation["responses"].items():
                if status.startswith("2"):
                    _add(schema, answer.get("content", {}))


def example_of(
    schema: dict[str, Any], shape: Mapping[str, Any], name: str = "", depth: int = 0
) -> Any:
    """A value that fits `shape`, a part of `schema`."""
    shape = resolve(schema, shape)
    if "example" in shape:
        return shape["example"]
    if "enum" in shape:
        wanted = VALUES.get(name)
        return wanted if wanted in shape["enum"] else shape["enum"][0]
    kind = shape.get("type")
    if kind == "object" or "properties" in shape:
        return _object(schema, shape, depth)
    if kind == "array":
        inner = name.removesuffix("s")
        return [] if depth > DEPTH_MAX else [example_of(schema, shape["items"], inner, depth + 1)]
    return _scalar(shape, name)


def resolve(schema: dict[str, Any], shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """The shape behind a reference, or behind the only part of an `allOf` or `oneOf`."""
    for _ in range(DEPTH_MAX):
        if "$ref" in shape:
            shape = schema["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
        elif shape.get("allOf") or shape.get("oneOf"):
            shape = (shape.get("allOf") or shape.get("oneOf") or [{}])[0]
        else:
            break
    return shape


def _object(schema: dict[str, Any], shape: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if depth > DEPTH_MAX:
        return {}
    properties = shape.get("properties", {})
    if not properties and isinstance(shape.get("additionalProperties"), dict):
        return {
            "retention.ms": example_of(schema, shape["additionalProperties"], "value", depth + 1)
        }
    return {name: example_of(schema, inner, name, depth + 1) for name, inner in properties.items()}


def _scalar(shape: Mapping[str, Any], name: str) -> Any:
    kind, form = shape.get("type"), shape.get("format")
    known = VALUES.get(name)
    if kind == "boolean":
        return bool(shape.get("default", False))
    if kind in {"integer", "number"}:
        if isinstance(known, int):
            return known
        value = shape.get("default", shape.get("minimum", 1))
        return value if value is not None else 1
    if kind == "string":
        if form == "date-time":
            return VALUES["at"]
        if isinstance(known, str) and len(known) >= shape.get("minLength", 0):
            return known
        if name.endswith("_ms"):
            return VALUES["timestamp"]
        return "…"
    return None


def _add(schema: dict[str, Any], contents: Mapping[str, Any]) -> None:
    for kind, content in contents.items():
        if kind == "application/json" and "schema" in content and not content.get("examples"):
            content["examples"] = {NAME: {"value": example_of(schema, content["schema"])}}
