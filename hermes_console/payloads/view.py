"""How a key, a value or a header's value is shown: absent, empty, JSON, text or hex.

Null is not empty. At most PREVIEW_BYTES_MAX are shown; what is cut off says so. What a viewer could
not see (control characters, changes of the writing direction) is shown by its code. Pure.
"""

from __future__ import annotations

import base64
import re
from enum import StrEnum
from typing import Final, NamedTuple

from hermes_console.payloads.losslessjson import NotJson, pretty

PREVIEW_BYTES_MAX: Final = 64 * 1024
HEX_BYTES_MAX: Final = 16 * 1024
HEX_ROW_BYTES: Final = 16
LINE_CHARACTERS: Final = 160
LINE_BYTES: Final = 1_024
LINE_HEX_BYTES: Final = 24
_UTF8_TAIL_BYTES: Final = 3
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
_BINARY: Final = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


class Form(StrEnum):
    """A way to show bytes. AUTO chooses among the others."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"


class Shown(NamedTuple):
    """Bytes as shown. `size` is that of all of them, None for null; `note` says what is not as it
    was sent or not all there.
    """

    form: Form
    text: str
    size: int | None
    note: str = ""
    is_cut: bool = False

    @property
    def is_null(self) -> bool:
        return self.size is None

    @property
    def is_empty(self) -> bool:
        return self.size == 0


def show(content: bytes | None, form: Form = Form.AUTO) -> Shown:
    """`content` in the form asked for, or (AUTO) in the most telling one that fits.

    JSON that is none, and text that is not UTF-8, fall back to the next form and say why.
    """
    if content is None:
        return Shown(Form.TEXT, "", None)
    if not content:
        return Shown(Form.TEXT, "", 0)
    if form is Form.HEX:
        return _hex(content, "")
    is_cut = len(content) > PREVIEW_BYTES_MAX
    text = decoded(content[:PREVIEW_BYTES_MAX], is_cut=is_cut)
    if text is None:
        return _hex(content, "" if form is Form.AUTO else "Not UTF-8 text, so it is shown as hex.")
    if form is Form.AUTO and _BINARY.search(text):
        return _hex(content, "")
    cut_note = f"The first {PREVIEW_BYTES_MAX // 1024} KiB are shown." if is_cut else ""
    if form is Form.TEXT or is_cut:
        note = "Too large to lay out as JSON. " if form is Form.JSON else ""
        return Shown(Form.TEXT, visible(text), len(content), note + cut_note, is_cut)
    try:
        return Shown(Form.JSON, visible(pretty(text)), len(content))
    except NotJson as error:
        note = f"Not JSON: {error}." if form is Form.JSON else ""
        return Shown(Form.TEXT, visible(text), len(content), note)


def line(content: bytes | None) -> str:
    """The beginning of `content` on one line, for a list; null and empty are the caller's."""
    head = (content or b"")[:LINE_BYTES]
    text = decoded(head, is_cut=len(content or b"") > LINE_BYTES)
    if text is None or _BINARY.search(text):
        shown = head[:LINE_HEX_BYTES].hex(" ")
        return f"0x {shown}{' …' if len(content or b'') > LINE_HEX_BYTES else ''}"
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= LINE_CHARACTERS else f"{flat[: LINE_CHARACTERS - 1]}…"


def decoded(content: bytes, *, is_cut: bool = False) -> str | None:
    """The text when `content` is UTF-8, else None; `is_cut`: a character may end in the middle."""
    for dropped in range(_UTF8_TAIL_BYTES + 1 if is_cut else 1):
        try:
            return content[: len(content) - dropped].decode()
        except UnicodeDecodeError as error:
            if error.end != len(content) - dropped or error.reason != "unexpected end of data":
                return None
    return None


def visible(text: str) -> str:
    """`text` with what nobody would see replaced by its code: `⟨U+202E⟩`."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def hex_rows(content: bytes) -> str:
    """`00000010  48 65 …  |He…|`, a row per 16 bytes."""
    rows = []
    for start in range(0, len(content), HEX_ROW_BYTES):
        row = content[start : start + HEX_ROW_BYTES]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:08x}  {row.hex(' '):<{HEX_ROW_BYTES * 3 - 1}}  |{letters}|")
    return "\n".join(rows)


def portable(content: bytes | None, limit: int | None = None) -> dict[str, object] | None:
    """For JSON: {"encoding": "utf-8" | "base64", "content", "size", "is_truncated"}; None for null.

    `size` is that of all bytes, as text; nothing is lost: what is not UTF-8 is base64.
    """
    if content is None:
        return None
    is_cut = limit is not None and len(content) > limit
    head = content[:limit] if is_cut else content
    text = decoded(head, is_cut=is_cut)
    return {
        "encoding": "base64" if text is None else "utf-8",
        "content": base64.b64encode(head).decode() if text is None else text,
        "size": str(len(content)),
        "is_truncated": is_cut,
    }


def _hex(content: bytes, note: str) -> Shown:
    is_cut = len(content) > HEX_BYTES_MAX
    cut_note = f"The first {HEX_BYTES_MAX // 1024} KiB are shown." if is_cut else ""
    text = hex_rows(content[:HEX_BYTES_MAX])
    return Shown(Form.HEX, text, len(content), f"{note} {cut_note}".strip(), is_cut)
