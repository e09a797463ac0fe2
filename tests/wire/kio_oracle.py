"""Our messages as kio's, field by field: names must agree but for kio's conversions of times."""

from __future__ import annotations

import datetime
import importlib
import io
import re
import uuid
from dataclasses import fields
from types import UnionType
from typing import Any, get_args, get_origin

from kio.serial import entity_reader, entity_writer
from kio.static.constants import uuid_zero

from broker.wire.api import Api
from broker.wire.schema import fields_of


def kio_type(api: Api, direction: str, version: int) -> type[Any]:
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower()
    module = importlib.import_module(f"kio.schema.{package}.v{version}.{direction}")
    return getattr(module, f"{api.name}{direction.capitalize()}")


def kio_encode(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def kio_decode(message_type: type[Any], data: bytes) -> Any:
    message, size = entity_reader(message_type)(data, 0)
    assert size == len(data)
    return message


def to_kio(message: Any, message_type: type[Any], version: int) -> Any:
    """The same message as kio's class; a field that only one side has is an error."""
    ours = {
        field.name: getattr(message, field.name)
        for field in fields_of(type(message))
        if version in field.versions
    }
    values = {}
    for field in fields(message_type):
        name = next(name for name in (field.name, f"{field.name}_ms") if name in ours)
        values[field.name] = _convert(
            ours.pop(name), field.type, field.metadata.get("kafka_type"), version
        )
    assert not ours, f"kio's {message_type.__name__} version {version} lacks {sorted(ours)}"
    return message_type(**values)


def _convert(value: Any, annotation: Any, kafka_type: str | None, version: int) -> Any:
    if get_origin(annotation) is UnionType:
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if kafka_type == "uuid" and get_origin(annotation) is not tuple:
        return None if value == bytes(16) else uuid.UUID(bytes=value)
    if kafka_type == "uuid":
        return tuple(uuid.UUID(bytes=item) if any(item) else uuid_zero for item in value)
    if value is None:
        return None
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(milliseconds=value)
    if kafka_type == "datetime_i64":
        moment = datetime.datetime.fromtimestamp(value // 1000, datetime.UTC)
        return None if value == -1 else moment + datetime.timedelta(milliseconds=value % 1000)
    if kafka_type == "error_code":
        return annotation(value)
    if get_origin(annotation) is tuple:
        element = get_args(annotation)[0]
        return (
            tuple(value) if kafka_type else tuple(to_kio(item, element, version) for item in value)
        )
    return value if kafka_type else to_kio(value, annotation, version)
