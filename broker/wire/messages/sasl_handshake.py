"""SaslHandshake (17): choose an authentication mechanism. Never flexible."""

from __future__ import annotations

from broker.wire.schema import STRING, array, int16, message, string


@message(api_key=17, direction="request", versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """The mechanism that the client wants."""

    mechanism: str = string()


@message(api_key=17, direction="response", versions="0-1", flexible="none")
class SaslHandshakeResponse:
    """Accepted, or the mechanisms that there are."""

    error_code: int = int16()
    mechanisms: list[str] = array(STRING)
