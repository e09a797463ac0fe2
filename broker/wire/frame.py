"""Frames and headers: int32 size, header, body. Produce and Fetch have faster ways
in `fast_produce` and `fast_fetch`.

| request header            | response header            |
|---------------------------|----------------------------|
| int16 api key             | int32 correlation id       |
| int16 api version         | tag section, from v1       |
| int32 correlation id      |                            |
| int16-length client id    |                            |
| tag section, from v2      |                            |

The client id keeps its int16 length in flexible versions. Sizes do not count the size field itself.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from broker.wire.api import CLIENT_APIS, request_header_version, response_header_version
from broker.wire.primitives import MalformedMessage, malformed_length, malformed_null, skip_tags
from broker.wire.schema import decoder, encoder

SIZE_BYTES: Final = 4
REQUEST_HEADER_BYTES_MIN: Final = 10

_NEVER: Final = (1, 0)
_FLEXIBLE: Final = {api.key: (api.flexible_from, api.max_version) for api in CLIENT_APIS.values()}
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame

_INT32: Final = struct.Struct(">i")
_REQUEST_HEADER: Final = struct.Struct(">hhih")
_REQUEST_FRAME: Final = struct.Struct(">ihhih")
_RESPONSE_FRAME: Final = struct.Struct(">ii")


class RequestHeader(NamedTuple):
    """`body_position` is where the body begins in the same view; meaningless when the version is
    not supported.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_request_header(view: memoryview) -> RequestHeader:
    """The header of a request (`view` is the frame without its size). Raises MalformedMessage.

    An unknown API or version is not an error here: its header is read as far as the client id, so
    that it can be answered by correlation id.
    """
    limit = len(view)
    if limit < REQUEST_HEADER_BYTES_MIN:
        msg = f"a request of {limit} bytes has no complete header"
        raise MalformedMessage(msg)
    api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(view)
    position = REQUEST_HEADER_BYTES_MIN
    client_id = None
    if length >= 0:
        end = position + length
        if end > limit:
            raise malformed_length(length, position, limit)
        try:
            client_id = str(view[position:end], "utf-8")
        except UnicodeDecodeError as error:
            msg = f"client id: {error}"
            raise MalformedMessage(msg) from None
        position = end
    elif length != -1:
        raise malformed_null("client id", length)
    first, last = _FLEXIBLE.get(api_key, _NEVER)
    if first <= api_version <= last:
        try:
            position = position + 1 if view[position] == 0 else skip_tags(view, position, limit)
        except IndexError:
            msg = "the request header ends inside its tag section"
            raise MalformedMessage(msg) from None
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Any
) -> bytes:
    """A whole request frame, size included. Raises EncodeError."""
    name = b"" if client_id is None else client_id.encode()
    out = bytearray(
        _REQUEST_FRAME.pack(
            0, api_key, version, correlation_id, -1 if client_id is None else len(name)
        )
    )
    out += name
    if request_header_version(api_key, version) == 2:
        out.append(0)
    encoder(CLIENT_APIS[api_key].request_type, version)(out, message)
    _INT32.pack_into(out, 0, len(out) - SIZE_BYTES)
    return bytes(out)


def encode_response(api_key: int, version: int, correlation_id: int, message: Any) -> bytes:
    """A whole response frame, size included. Raises EncodeError."""
    out = bytearray(_RESPONSE_FRAME.pack(0, correlation_id))
    if response_header_version(api_key, version) == 1:
        out.append(0)
    encoder(CLIENT_APIS[api_key].response_type, version)(out, message)
    _INT32.pack_into(out, 0, len(out) - SIZE_BYTES)
    return bytes(out)


def decode_correlation_id(view: memoryview) -> int:
    """The first field of a response (`view` is the frame without its size). Raises
    MalformedMessage.
    """
    if len(view) < _INT32.size:
        msg = f"a response of {len(view)} bytes has no correlation id"
        raise MalformedMessage(msg)
    correlation_id: int = _INT32.unpack_from(view)[0]
    return correlation_id


def decode_response(api_key: int, version: int, view: memoryview) -> tuple[int, Any]:
    """(correlation id, message) of a response (`view` is the frame without its size). Raises
    MalformedMessage.
    """
    correlation_id = decode_correlation_id(view)
    position = _INT32.size
    if response_header_version(api_key, version) == 1:
        try:
            position = skip_tags(view, position, len(view))
        except IndexError:
            msg = "the response ends inside its header"
            raise MalformedMessage(msg) from None
    message, _end = decoder(CLIENT_APIS[api_key].response_type, version)(view, position)
    return correlation_id, message
