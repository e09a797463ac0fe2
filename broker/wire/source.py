"""A small writer of Python source for the two codec compilers: indentation, numbered constants,
fixed-size batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker.wire.fields import Field
from broker.wire.primitives import EncodeError


class Source:
    """Lines of a function under construction, and the constants that they name."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self._lines: list[str] = []
        self._indent = 0
        self._names: dict[tuple[str, Any], str] = {}

    def line(self, text: str) -> None:
        """Append one line at the present indentation."""
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append `head` (without its colon) and indent what follows."""
        self.line(f"{head}:")
        self._indent += 1
        yield
        self._indent -= 1

    def constant(self, prefix: str, value: Any, key: Any = None) -> str:
        """The name under which the generated code sees `value`; equal keys share one name."""
        identity = (prefix, id(value) if key is None else key)
        name = self._names.get(identity)
        if name is None:
            name = self._names[identity] = f"{prefix}_{len(self._names)}"
            self.scope[name] = value
        return name

    def literal(self, value: Any) -> str:
        """An expression for a default value."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        return self.constant("default", value, key=bytes(value))

    def function(self, name: str) -> Any:
        """Compile the lines and return the function `name` that they define."""
        text = "\n".join(self._lines)
        exec(compile(text, f"<codec {name}>", "exec"), self.scope)  # noqa: S102 - generated from our own declarations
        return self.scope[name]


def describe(message_type: type, version: int) -> tuple[tuple[Field, ...], bool]:
    """(the fields, whether the version is flexible). Raises EncodeError when there is no such
    version.
    """
    info = message_type.__message__  # type: ignore[attr-defined]
    if info is None or version not in info.versions:
        msg = f"{message_type.__name__} has no version {version}"
        raise EncodeError(msg)
    return message_type.__fields__, version in info.flexible  # type: ignore[attr-defined]
