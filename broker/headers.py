"""The names of the record headers that HermesMQ reads or writes. A new header is a new row."""

from __future__ import annotations

from typing import Final, NamedTuple


class Header(NamedTuple):
    """`name` on the wire, who writes it, and what its value (UTF-8 text) means."""

    name: str
    written_by: str
    meaning: str


MESSAGE_ID: Final = Header(
    "message-id",
    "SDK, gateway, demo",
    "globally unique id of the message, for tracing and deduplication",
)
TRACEPARENT: Final = Header(
    "traceparent", "SDK, gateway, demo", "W3C trace context of the producer, version 00"
)
EVENT_TYPE: Final = Header(
    "event-type", "demo", "name of the order event, for example OrderCreated"
)

HEADERS: Final = (MESSAGE_ID, TRACEPARENT, EVENT_TYPE)
