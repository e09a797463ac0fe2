"""`/api/admin/v1/docs`: the schema as a page of the console, rendered here: no foreign script, the
same strict CSP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

from hermes_console.api.examples import DEPTH_MAX, resolve
from hermes_console.curl import curl

PREFIX = "/api/admin/v1/"


class Row(NamedTuple):
    """A parameter or a field of a body or an answer."""

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
    body: list[Row]
    fields: list[Row]
    statuses: list[str]
    call: str
    example: str


class Chapter(NamedTuple):
    """The operations on one kind of thing."""

    title: str
    operations: list[Operation]


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    origin = f"{request.scheme}://{request.get_host()}"
    context = {"chapters": chapters(make_schema(), origin)}
    return render(request, "api/reference.html", context)


def make_schema() -> dict[str, Any]:
    """The OpenAPI document."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    schema: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return schema


def chapters(schema: dict[str, Any], origin: str = "") -> list[Chapter]:
    """The operations by what they are about, in order of address."""
    found = sorted(operations(schema, origin), key=lambda one: (_subject(one.path), one.path))
    return [
        Chapter(title, list(members))
        for title, members in groupby(found, key=lambda one: _subject(one.path))
    ]


def operations(schema: dict[str, Any], origin: str = "") -> Iterator[Operation]:
    """Every operation of the document, in its order."""
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            answer = _answer(operation)
            sent, shown = _example(body, indent=None), _example(answer, indent=2)
            yield Operation(
                anchor=operation["operationId"],
                method=method.upper(),
                path=path,
                title=operation.get("summary", operation["operationId"]),
                text=operation.get("description", ""),
                parameters=[_parameter(one) for one in operation.get("parameters", ())],
                body=list(_fields(schema, body.get("schema", {}), "")),
                fields=list(_fields(schema, answer.get("schema", {}), "")),
                statuses=list(operation["responses"]),
                call=curl(
                    method.upper(),
                    origin + path,
                    sent,
                    with_if_match=_is_required(operation, "If-Match"),
                ),
                example=shown,
            )


def _subject(path: str) -> str:
    """What an address is about: the last word of it that names a kind of thing at its top."""
    words = [word for word in path.removeprefix(PREFIX).split("/") if not word.startswith("{")]
    inner = words[1] if words[0] == "clusters" and len(words) > 1 else words[0]
    inner = "messages" if "records" in words else "clusters" if inner == "test" else inner
    return ("accounts" if inner == "me" else inner).capitalize()


def _answer(operation: dict[str, Any]) -> dict[str, Any]:
    """The JSON of the first answer that is a success."""
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            found: dict[str, Any] = answer.get("content", {}).get("application/json", {})
            return found
    return {}


def _example(content: dict[str, Any], *, indent: int | None) -> str:
    examples = list(content.get("examples", {}).values())
    return json.dumps(examples[0]["value"], indent=indent, ensure_ascii=False) if examples else ""


def _is_required(operation: dict[str, Any], name: str) -> bool:
    return any(
        one["name"] == name and one.get("required") for one in operation.get("parameters", ())
    )


def _parameter(parameter: dict[str, Any]) -> Row:
    text = parameter.get("description") or _bounds(parameter["schema"])
    if parameter["in"] == "path" and not text:
        text = "In the address."
    kind = _kind(parameter["schema"])
    return Row(parameter["name"], kind, bool(parameter.get("required")), text)


def _fields(
    schema: dict[str, Any], shape: dict[str, Any], prefix: str, depth: int = 0
) -> Iterator[Row]:
    """The fields of an object and of the objects in its lists, with dotted names."""
    plain_shape = resolve(schema, shape)
    required = plain_shape.get("required", ())
    for name, field in plain_shape.get("properties", {}).items():
        plain = resolve(schema, field)
        text = field.get("description") or plain.get("description", "")
        yield Row(f"{prefix}{name}", _kind({**plain, **field}), name in required, text)
        inner = resolve(schema, plain.get("items", {}))
        if depth < DEPTH_MAX and "properties" in inner:
            yield from _fields(schema, dict(inner), f"{prefix}{name}[].", depth + 1)
        elif depth < DEPTH_MAX and "properties" in plain:
            yield from _fields(schema, dict(plain), f"{prefix}{name}.", depth + 1)


def _kind(shape: dict[str, Any]) -> str:
    if "enum" in shape:
        return " | ".join(str(value) for value in shape["enum"])
    kind = shape.get("type", "object")
    if kind == "array":
        inner = shape.get("items", {}).get("type", "object")
        return f"list of {inner}s" + (" or null" if shape.get("nullable") else "")
    return f"{kind} or null" if shape.get("nullable") else str(kind)


def _bounds(shape: dict[str, Any]) -> str:
    if "minimum" in shape and "maximum" in shape:
        return f"{shape['minimum']} to {shape['maximum']}, {shape.get('default')} if absent."
    return ""
