"""`/api/admin/v1/docs`: the schema as a page of the console, rendered here: no foreign script, the
same strict CSP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator


class Row(NamedTuple):
    """A parameter or a field of an answer."""

    name: str
    kind: str
    is_required: bool
    text: str


class Operation(NamedTuple):
    """One method of one address."""

    anchor: str
    method: str
    path: str
    title: str
    text: str
    parameters: list[Row]
    fields: list[Row]
    statuses: list[str]
    example: str


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    return render(request, "api/reference.html", {"operations": list(operations(make_schema()))})


def make_schema() -> dict[str, Any]:
    """The OpenAPI document."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    schema: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return schema


def operations(schema: dict[str, Any]) -> Iterator[Operation]:
    """Every operation of the document, in its order."""
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            content = operation["responses"].get("200", {}).get("content", {})
            answer = content.get("application/json", {})
            examples = list(answer.get("examples", {}).values())
            yield Operation(
                anchor=operation["operationId"],
                method=method.upper(),
                path=path,
                title=operation.get("summary", operation["operationId"]),
                text=operation.get("description", ""),
                parameters=[_parameter(one) for one in operation.get("parameters", ())],
                fields=list(_fields(schema, answer.get("schema", {}), "")),
                statuses=list(operation["responses"]),
                example=json.dumps(examples[0]["value"], indent=2) if examples else "",
            )


def _parameter(parameter: dict[str, Any]) -> Row:
    text = parameter.get("description") or _bounds(parameter["schema"])
    kind = _kind(parameter["schema"])
    return Row(parameter["name"], kind, bool(parameter.get("required")), text)


def _fields(schema: dict[str, Any], shape: dict[str, Any], prefix: str) -> Iterator[Row]:
    """The fields of an object and of the objects in its lists, with dotted names."""
    shape = _resolved(schema, shape)
    required = shape.get("required", ())
    for name, field in shape.get("properties", {}).items():
        plain = _resolved(schema, field)
        yield Row(f"{prefix}{name}", _kind(plain), name in required, field.get("description", ""))
        inner = _resolved(schema, plain.get("items", {}))
        if "properties" in inner:
            yield from _fields(schema, inner, f"{prefix}{name}[].")


def _resolved(schema: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    name = shape.get("$ref", "").rpartition("/")[2]
    resolved: dict[str, Any] = schema["components"]["schemas"][name] if name else shape
    return resolved


def _kind(shape: dict[str, Any]) -> str:
    if "enum" in shape:
        return " | ".join(str(value) for value in shape["enum"])
    kind = shape.get("type", "object")
    if kind == "array":
        return f"list of {shape['items'].get('type', 'object')}s"
    return f"{kind} or null" if shape.get("nullable") else str(kind)


def _bounds(shape: dict[str, Any]) -> str:
    if "minimum" in shape and "maximum" in shape:
        return f"{shape['minimum']} to {shape['maximum']}, {shape.get('default')} if absent."
    return ""
