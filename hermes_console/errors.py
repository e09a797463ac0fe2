"""What went wrong, as an answer: (HTTP status, code, a sentence that says what to do). Pages show
the sentence and keep the form, the API sends problem+json: both by `trouble_of`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from django.core.exceptions import PermissionDenied
from django.http import Http404

from broker.client.blocking import (
    BrokerRefusal,
    ClientError,
    ConnectionLost,
    ErrorCode,
    TimedOut,
    Unsupported,
)


class Refused(Exception):
    """An operation refuses for a reason of its own; nothing was changed."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


class Trouble(NamedTuple):
    """An answer to an error: `code` is stable and for programs, `detail` for people."""

    status: int
    code: str
    detail: str


class Row(NamedTuple):
    """How a broker's error code is answered. `advice` follows the broker's own words."""

    status: int
    advice: str


REFUSALS: Final[Mapping[ErrorCode, Row]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Row(404, "It may have been deleted: reload the list."),
    ErrorCode.UNKNOWN_TOPIC_ID: Row(404, "It may have been deleted: reload the list."),
    ErrorCode.GROUP_ID_NOT_FOUND: Row(404, "It may have been deleted or expired."),
    ErrorCode.TOPIC_ALREADY_EXISTS: Row(409, "Choose another name."),
    ErrorCode.NON_EMPTY_GROUP: Row(409, "Stop the group's members first."),
    ErrorCode.REBALANCE_IN_PROGRESS: Row(409, "Try again when the group has settled."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: Row(409, "Stop the group's members first."),
    ErrorCode.OFFSET_OUT_OF_RANGE: Row(409, "Choose an offset between the log's start and end."),
    ErrorCode.INVALID_TOPIC_EXCEPTION: Row(
        422, "A topic's name has 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'."
    ),
    ErrorCode.INVALID_PARTITIONS: Row(422, "Choose another number of partitions."),
    ErrorCode.INVALID_REPLICATION_FACTOR: Row(
        422, "Choose at most as many replicas as there are brokers."
    ),
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: Row(422, "Choose other replicas."),
    ErrorCode.INVALID_CONFIG: Row(422, "Correct the setting."),
    ErrorCode.INVALID_REQUEST: Row(422, "Correct what was entered."),
    ErrorCode.INVALID_GROUP_ID: Row(422, "Choose another group."),
    ErrorCode.INVALID_TIMESTAMP: Row(422, "Correct the time."),
    ErrorCode.POLICY_VIOLATION: Row(422, "The cluster's policy forbids it."),
    ErrorCode.MESSAGE_TOO_LARGE: Row(413, "Send less, or raise max.message.bytes of the topic."),
    ErrorCode.RECORD_LIST_TOO_LARGE: Row(413, "Send less, or raise max.message.bytes."),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Row(
        403, "The console's own principal lacks this right on the cluster."
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Row(
        403, "The console's own principal lacks this right on the cluster."
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Row(
        403, "The console's own principal lacks this right on the cluster."
    ),
    ErrorCode.UNSUPPORTED_VERSION: Row(501, "This cluster cannot do it."),
    ErrorCode.KAFKA_STORAGE_ERROR: Row(
        507, "The broker's disk failed or is full: look at the page Brokers."
    ),
}
RETRY: Final = "Try again in a moment."
SUBJECT: Final = re.compile(r"\w+ '(?P<name>[\w.-]+)': (?P<rest>.+)", re.DOTALL)


def trouble_of(error: BaseException) -> Trouble | None:
    """The answer to `error`; None when it is a bug of ours."""
    if isinstance(error, Refused):
        return Trouble(error.status, error.code, error.detail)
    if isinstance(error, PermissionDenied):
        return Trouble(403, "not-allowed", str(error) or "Your account has no right to this.")
    if isinstance(error, Http404):
        return Trouble(404, "not-found", str(error) or "There is nothing at this address.")
    if isinstance(error, ClientError):
        return _client_trouble(error)
    return None


def _client_trouble(error: ClientError) -> Trouble:
    if isinstance(error, BrokerRefusal):
        row = REFUSALS.get(error.code)
        code = error.code.name.lower().replace("_", "-")
        if row is not None:
            return Trouble(row.status, code, f"{sentence(str(error))} {row.advice}")
        if error.is_retriable:
            return Trouble(503, code, f"{sentence(str(error))} {RETRY}")
        return Trouble(502, code, sentence(f"The cluster refused: {error}"))
    if isinstance(error, Unsupported):
        return Trouble(501, "unsupported", f"This cluster cannot do it: {sentence(str(error))}")
    if isinstance(error, TimedOut):
        return Trouble(
            504,
            "cluster-timeout",
            f"The cluster did not answer in time: {sentence(str(error))} "
            "Check that its brokers run and can be reached from here. A change that was asked for "
            "may still be made: look before you repeat it.",
        )
    if isinstance(error, ConnectionLost):
        return Trouble(
            502,
            "cluster-unreachable",
            f"The cluster cannot be reached: {sentence(str(error))} "
            "Check that it runs and that its advertised addresses can be reached from the console.",
        )
    return Trouble(502, "cluster-error", sentence(f"The call failed: {error}"))


def sentence(text: str) -> str:
    """`text` with a full stop at its end, and what it is about named once."""
    text = without_echo(text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def without_echo(text: str) -> str:
    """`topic 'x': Topic 'x' already exists` says it twice: the words in front go when what follows
    names the same thing. Pure.
    """
    found = SUBJECT.fullmatch(text)
    if found is None or found["name"] not in re.split(r"[^\w.-]+", found["rest"]):
        return text
    rest = found["rest"]
    return rest[:1].upper() + rest[1:]
