"""What a step of the group coordinator receives besides its request, and what it asks the shell to
do.

The shell executes effects in order. `Append`: the record is applied at once and belongs to this
moment's batch. `Reply`: it leaves when everything appended so far is committed; `reply_to` is the
shell's own and opaque here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker.coordinators.group.limits import GroupLimits
from broker.coordinators.group.records import Record

ReplyTo = Callable[[Any], None]
"""Takes the response, or an ErrorCode when the coordinator failed before the response could leave.
"""


class Moment(NamedTuple):
    """The moment of a step: `monotonic_ms` for deadlines, `wall_ms` for what is stored, the limits
    in force. `may_create_group` is False when the node has as many groups as it may.
    """

    monotonic_ms: float
    wall_ms: int
    limits: GroupLimits
    may_create_group: bool = True


class Caller(NamedTuple):
    """Who sent a request: `client_id` as sent ("" for none), `client_host` as Kafka shows it."""

    client_id: str
    client_host: str
    api_version: int
    reply_to: ReplyTo


class Append(NamedTuple):
    """Store `record`."""

    record: Record


class Reply(NamedTuple):
    """Answer one request; every request gets exactly one."""

    reply_to: ReplyTo
    response: Any


Effect = Append | Reply


class Decision(NamedTuple):
    """What a request about stored state changes, and its answer."""

    records: list[Record]
    response: Any
