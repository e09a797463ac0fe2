"""The way from a form or a request to bytes: text, JSON, hex, base64; null is not empty.

JSON is checked and kept byte for byte. Pure.
"""

from __future__ import annotations

import base64
import binascii
from enum import StrEnum
from typing import Final

from hermes_console.payloads.losslessjson import NotJson, lexemes

HEX_SEPARATORS: Final = str.maketrans("", "", " \t\r\n:")


class Encoding(StrEnum):
    """How bytes are written as text. NULL: there are none, whatever the text says."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"
    NULL = "null"


class BadEntry(ValueError):
    """The text is not what its encoding asks for; the message says what to correct."""


def entered(text: str, encoding: Encoding) -> bytes | None:
    """The bytes that `text` stands for; None for NULL. Raises BadEntry."""
    if encoding is Encoding.NULL:
        if text:
            raise BadEntry("Null has no content: empty the field or choose another encoding.")
        return None
    if encoding is Encoding.HEX:
        return _from_hex(text)
    if encoding is Encoding.BASE64:
        return _from_base64(text)
    if encoding is Encoding.JSON:
        try:
            for _ in lexemes(text):
                pass
        except NotJson as error:
            raise BadEntry(f"Not JSON: {error}.") from error
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadEntry("The text has half of a surrogate pair: enter it as hex.") from error


def _from_hex(text: str) -> bytes:
    digits = text.translate(HEX_SEPARATORS)
    try:
        return bytes.fromhex(digits.removeprefix("0x").removeprefix("0X"))
    except ValueError as error:
        raise BadEntry(
            "Not hex: expected pairs of 0-9 and a-f, for example 48 65 6c 6c 6f."
        ) from error


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadEntry("Not base64: expected A-Z, a-z, 0-9, + and /, padded with =.") from error
