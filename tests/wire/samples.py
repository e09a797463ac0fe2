"""Random values of any declared message, with only the fields that a version has."""

from __future__ import annotations

from random import Random
from typing import Any

from broker.wire.api import CLIENT_APIS, Api
from broker.wire.fields import Field, Kind
from broker.wire.schema import fields_of

TEXTS = ("", "a", "orders", "größe-✓", "x" * 130)
BLOBS = (b"", b"\0", b"payload", bytes(range(256)))
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
ERROR_CODES = (-1, 0, 1, 3, 35, 87, 133)

VERSIONS = [
    (api, direction, version)
    for api in CLIENT_APIS.values()
    for direction in ("request", "response")
    for version in range(api.codec_from, api.max_version + 1)
]


def message_type(api: Api, direction: str) -> type[Any]:
    return api.request_type if direction == "request" else api.response_type


def sample(struct_type: type[Any], version: int, random: Random) -> Any:
    """A value whose fields are at their defaults where `version` lacks them."""
    values = {
        field.name: _value(field, version, random)
        for field in fields_of(struct_type)
        if version in field.versions and not (field.tag is not None and random.random() < 0.3)
    }
    return struct_type(**values)


def _value(field: Field, version: int, random: Random) -> Any:
    if version in field.nullable and random.random() < 0.25:
        return None
    if field.kind.name == "array":
        count = random.choice((0, 1, 2, 3, 130 if isinstance(field.element, Kind) else 2))
        return [_element(field.element, version, random) for _ in range(count)]
    if field.kind.name == "struct":
        return sample(field.element, version, random)
    if field.name == "error_code":
        return random.choice(ERROR_CODES)
    if field.name in ("log_append_time_ms", "retention_time_ms"):
        return random.choice((-1, 0, 1, 1_760_000_000_123))
    return _primitive(field.kind, random)


def _element(element: Any, version: int, random: Random) -> Any:
    return (
        _primitive(element, random)
        if isinstance(element, Kind)
        else sample(element, version, random)
    )


def _primitive(kind: Kind, random: Random) -> Any:
    if kind.name == "boolean":
        return random.random() < 0.5
    if kind.name == "string":
        return random.choice(TEXTS)
    if kind.name in ("bytes", "records"):
        return random.choice(BLOBS)
    if kind.name == "uuid":
        return random.choice((bytes(16), random.randbytes(16)))
    bits = INTEGER_BITS[kind.name]
    edge = 1 << (bits - 1)
    return random.choice((-edge, -1, 0, 1, edge - 1, random.randrange(-edge, edge)))
