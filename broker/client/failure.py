"""How a call to a cluster can fail. The console catches `ClientError`; `code` is Kafka's error
code.
"""

from __future__ import annotations

from broker.errors import RETRIABLE, ErrorCode

__all__ = ["BrokerRefusal", "ClientError", "ConnectionLost", "ErrorCode", "TimedOut", "Unsupported"]


class ClientError(Exception):
    """Something did not happen. `is_retriable`: the same call may succeed later."""

    is_retriable = False


class ConnectionLost(ClientError):
    """No connection, or it broke before the answer: what was asked may have been done or not."""

    is_retriable = True


class TimedOut(ClientError):
    """Not done in the time allowed: it may still be done."""

    is_retriable = True


class Unsupported(ClientError):
    """The broker does not offer an API, or no version of it that this client speaks."""


class BrokerRefusal(ClientError):
    """The broker answered with an error code; `message` is what it said to it, "" for nothing."""

    def __init__(self, code: ErrorCode, message: str | None = None, *, subject: str = "") -> None:
        text = message or code.name
        super().__init__(f"{subject}: {text}" if subject else text)
        self.code = code
        self.message = message or ""
        self.is_retriable = code in RETRIABLE
