"""SaslHandshake (17): refused, because nobody authenticates on a PLAINTEXT listener.

The answer is Kafka's: ILLEGAL_SASL_STATE, no mechanism. A client that insists on SASL learns at
once that this listener has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_sasl_handshake(
    _broker: Broker,
    _context: RequestContext,
    _request: SaslHandshakeRequest,
    reply: Callable[[SaslHandshakeResponse], None],
) -> None:
    """The refusal; the connection stays usable."""
    reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
