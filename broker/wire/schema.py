"""A message is declared once, for all its versions, as a class; its codecs are compiled from that
on first use.

`@struct` and `@message` turn a class of annotated field kinds into a `__slots__` class with a
keyword constructor (every field has its default), `==` and `repr`. `decoder` and `encoder` return
straight-line functions for one version. Names are snake_case of the Kafka message schema. Not here:
the wire form of a field (fields), code generation (decode_compiler, encode_compiler), which API has
which message (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from broker.wire.decode_compiler import compile_decoder
from broker.wire.encode_compiler import compile_encoder
from broker.wire.fields import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    FRESH,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Field,
    Versions,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    parse_versions,
    records,
    string,
    uint16,
    uint32,
    uuid,
)

__all__ = [
    "BOOLEAN",
    "BYTES",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "STRING",
    "UINT16",
    "UINT32",
    "UUID",
    "MessageInfo",
    "array",
    "boolean",
    "bytes_",
    "decoder",
    "encoder",
    "fields_of",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "message",
    "message_info",
    "nested",
    "records",
    "string",
    "struct",
    "uint16",
    "uint32",
    "uuid",
]

T = TypeVar("T")


class MessageInfo(NamedTuple):
    """What `@message` says about a class. `api_key` is -1 and `direction` "data" for what is
    stored, not sent.
    """

    api_key: int
    direction: str
    versions: Versions
    flexible: Versions


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """The class that `cls` declares, for use inside messages."""
    return _build(cls, None)


@dataclass_transform(kw_only_default=True)
def message(
    *, versions: str, flexible: str, api_key: int = -1, direction: str = "data"
) -> Callable[[type[T]], type[T]]:
    """As `struct`, for a whole message. `versions` are those that codecs exist for; `flexible` may
    be "none".
    """
    info = MessageInfo(api_key, direction, parse_versions(versions), parse_versions(flexible))

    def decorate(cls: type[T]) -> type[T]:
        return _build(cls, info)

    return decorate


def fields_of(message_type: type) -> tuple[Field, ...]:
    """The declared fields of a struct or message, in wire order."""
    fields: tuple[Field, ...] = message_type.__fields__  # type: ignore[attr-defined]
    return fields


def message_info(message_type: type) -> MessageInfo:
    """What `@message` was given. Raises AttributeError for a mere struct."""
    info: MessageInfo = message_type.__message__  # type: ignore[attr-defined]
    return info


def decoder(message_type: type[T], version: int) -> Callable[[memoryview, int], tuple[T, int]]:
    """A function (view, position) -> (message, next position); bytes after the message are the
    caller's business.

    It raises MalformedMessage and nothing else, whatever the bytes; time and memory are bounded by
    len(view). Raises EncodeError here when the message has no such version.
    """
    key = (message_type, version)
    function = _DECODERS.get(key)
    if function is None:
        function = _DECODERS[key] = compile_decoder(message_type, version)
    return function


def encoder(message_type: type[T], version: int) -> Callable[[bytearray, T], None]:
    """A function (out, message) that appends the message to `out`.

    It raises EncodeError for a value that does not fit its type, for null where null is not
    allowed, and for a value other than the default in a field that the version lacks, unless the
    field is ignorable; `out` then holds a part.
    """
    key = (message_type, version)
    function = _ENCODERS.get(key)
    if function is None:
        function = _ENCODERS[key] = compile_encoder(message_type, version)
    return function


_DECODERS: dict[tuple[type, int], Callable[[memoryview, int], tuple[Any, int]]] = {}
_ENCODERS: dict[tuple[type, int], Callable[[bytearray, Any], None]] = {}


def _build(cls: type[T], info: MessageInfo | None) -> type[T]:
    declared = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
    fields = tuple(field._replace(name=name) for name, field in declared.items())
    namespace = {
        name: value
        for name, value in vars(cls).items()
        if name not in declared and name not in ("__dict__", "__weakref__")
    }
    namespace |= {
        "__slots__": tuple(declared),
        "__fields__": fields,
        "__message__": info,
        "__hash__": None,
    }
    namespace |= {"__init__": _first_init, "__eq__": _first_eq, "__repr__": _first_repr}
    return type(cls.__name__, (), namespace)


# What a class has until one of its methods is called first: most classes are declared and never
# used, and to generate the methods of all of them would be a tenth of a broker's start.


def _first_init(self: Any, **values: Any) -> None:
    cls = _finish(type(self))
    cls.__init__(self, **values)


def _first_eq(self: Any, other: object) -> Any:
    return _finish(type(self)).__eq__(self, other)


def _first_repr(self: Any) -> str:
    return _finish(type(self)).__repr__(self)  # type: ignore[no-any-return]


def _finish(cls: Any) -> Any:
    """The class, with its own methods from now on."""
    for name, method in _methods(cls.__fields__).items():
        setattr(cls, name, method)
    return cls


def _methods(fields: tuple[Field, ...]) -> dict[str, Any]:
    """`__init__`, `__eq__` and `__repr__`, generated so that building a message costs one call."""
    parameters = ", ".join(f"{field.name}=default_{index}" for index, field in enumerate(fields))
    body = [
        f"    self.{field.name} = {_initial(field, index)}" for index, field in enumerate(fields)
    ] or ["    pass"]
    mine = "".join(f"self.{field.name}," for field in fields)
    theirs = "".join(f"other.{field.name}," for field in fields)
    source = "\n".join(
        [
            f"def __init__(self{', *, ' if fields else ''}{parameters}):",
            *body,
            "def __eq__(self, other):",
            "    if other.__class__ is not self.__class__:",
            "        return NotImplemented",
            f"    return ({mine}) == ({theirs})",
            "def __repr__(self):",
            "    values = ', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)",
            "    return f'{self.__class__.__name__}({values})'",
        ]
    )
    scope: dict[str, Any] = {"FRESH": FRESH}
    scope |= {f"default_{index}": field.default for index, field in enumerate(fields)}
    scope |= {f"Struct_{index}": field.element for index, field in enumerate(fields)}
    exec(source, scope)  # noqa: S102 - our own declarations, no outside input
    return {name: scope[name] for name in ("__init__", "__eq__", "__repr__")}


def _initial(field: Field, index: int) -> str:
    if field.default is not FRESH:
        return field.name
    fresh = "[]" if field.kind.name == "array" else f"Struct_{index}()"
    return f"{fresh} if {field.name} is FRESH else {field.name}"
