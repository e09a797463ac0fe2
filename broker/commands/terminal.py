"""Where commands speak: results to standard output, everything else to standard error; questions;
progress.

With `--json` standard output gets one JSON document (JSON_SHAPE), or one object a line from
`consume`. Nothing is buffered beyond a write's own text. A reader that went away raises
BrokenPipeError, and output that cannot be written OutputFault; `main` handles both. What the
terminal's encoding lacks is escaped.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TextIO

from broker.client.failure import BrokerRefusal, ClientError
from broker.commands import text

PROGRESS_EVERY_MS: Final = 500
JSON_SHAPE: Final = (
    '`{"command": "topics list", "items": […], "errors": [{"item", "code", "message"}]}`: one '
    "document, also when something failed. Offsets, sizes, counts of records, times in ms and "
    "every other 64-bit number are strings, as they do not fit a double; absent is null."
)


class Declined(Exception):
    """The person said no, or nobody could be asked."""


class OutputFault(Exception):
    """Standard output cannot be written: a full disk, a closed descriptor."""


class Terminal:
    """`is_json` as the person asked. Standard streams unless a test gives others."""

    def __init__(
        self,
        command: str,
        *,
        is_json: bool,
        monotonic_ms: Callable[[], float],
        out: TextIO | None = None,
        err: TextIO | None = None,
        source: TextIO | None = None,
    ) -> None:
        self.is_json = is_json
        self.items: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self._command = command
        self._monotonic_ms = monotonic_ms
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._source = sys.stdin if source is None else source
        self._progress_ms = -1e18
        self._has_progress = False
        if isinstance(self._out, io.TextIOWrapper):
            self._out.reconfigure(errors="backslashreplace")
        name = getattr(self._out, "encoding", None) or "utf-8"
        self._is_json_ascii = codecs.lookup(name).name != "utf-8"

    @property
    def has_failed(self) -> bool:
        return bool(self.errors)

    def line(self, words: str = "") -> None:
        """A line of the result; nothing with --json."""
        if not self.is_json:
            self._write(words + "\n")

    def table(self, heading: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table of the result; nothing with --json."""
        if not self.is_json:
            self._write("\n".join(text.layout(heading, rows)) + "\n")

    def item(self, **fields: Any) -> None:
        """An item of the JSON document."""
        if self.is_json:
            self.items.append(fields)

    def raw(self, content: bytes) -> None:
        """Bytes as they are, for records."""
        self._clear_progress()
        with _OUTPUT:
            self._out.flush()
            self._out.buffer.write(content)

    def flush(self) -> None:
        with _OUTPUT:
            self._out.flush()

    @property
    def is_out_a_terminal(self) -> bool:
        return self._out.isatty()

    def say(self, words: str) -> None:
        """To standard error: warnings, what was done, where to go from here."""
        self._clear_progress()
        self._err.write(words + "\n")
        self._err.flush()

    def fail(self, item: str, error: ClientError | str, *, hint: str = "") -> None:
        """Something was refused: said on standard error, kept for the JSON document and for the
        exit code.
        """
        code = error.code.name if isinstance(error, BrokerRefusal) else ""
        message = text.sentences(text.clean(str(error)), hint)
        self.errors.append({"item": item, "code": code or None, "message": message})
        self.say(f"hermes: {message}")

    def finish(self) -> None:
        """The JSON document, if it was asked for."""
        self._clear_progress()
        if self.is_json:
            document = {"command": self._command, "items": self.items, "errors": self.errors}
            self._write(json.dumps(document, indent=2, ensure_ascii=self._is_json_ascii) + "\n")
        self.flush()

    def json_line(self, fields: dict[str, Any]) -> None:
        """One object of a stream of them."""
        self._write(json.dumps(fields, ensure_ascii=self._is_json_ascii) + "\n")

    def progress(self, words: str, *, done: int, total: int | None = None) -> None:
        """How far long work is: on a terminal alone, twice a second at most, on one line that
        goes away.
        """
        now_ms = self._monotonic_ms()
        if not self._err.isatty() or now_ms - self._progress_ms < PROGRESS_EVERY_MS:
            return
        self._progress_ms = now_ms
        share = f" ({done * 100 // total} %)" if total else ""
        of = f" of {total:,}" if total else ""
        width = os.get_terminal_size(self._err.fileno()).columns or 80
        self._err.write("\r\x1b[K" + f"{words}: {done:,}{of}{share}"[: width - 1])
        self._err.flush()
        self._has_progress = True

    def confirm(self, act: str, word: str, *, is_agreed: bool) -> None:
        """Returns when the person typed `word`, or had agreed (`--yes`). Raises Declined, without
        asking when nobody is there to type.
        """
        if is_agreed:
            return
        if not self._source.isatty():
            msg = f"not confirmed: nobody is there to {act}. Add --yes if that is meant"
            raise Declined(msg)
        self._err.write(f"Type {text.clean(word)!r} to {act}: ")
        self._err.flush()
        typed = self._source.readline()
        if typed.strip() != word:
            msg = "not confirmed: what was typed is something else. Nothing was changed"
            raise Declined(msg)

    def _write(self, words: str) -> None:
        self._clear_progress()
        with _OUTPUT:
            self._out.write(words)

    def _clear_progress(self) -> None:
        if self._has_progress:
            self._err.write("\r\x1b[K")
            self._err.flush()
            self._has_progress = False


class _Output:
    """Around a write to standard output."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise OutputFault(f"the output cannot be written: {error.strerror}") from error


_OUTPUT: Final = _Output()


def int64(number: int | None) -> str | None:
    """A 64-bit number for JSON."""
    return None if number is None else str(number)
