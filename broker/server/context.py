"""What a handler knows about the request it answers, besides the request itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.server.connection import Connection


class RequestContext(NamedTuple):
    """One request's header and where it came from.

    `client_id` is "" when the client sent none. `client_host` is the peer's address without a port.
    `connection` is for closing it (`connection.close(reason)`) and as an identity; handlers never
    write to it.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    client_host: str
    connection: Connection
