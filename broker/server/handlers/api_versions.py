"""ApiVersions (18): what this broker answers, in which versions. Before and after authentication
the same list.

A version above ours never comes here: the server answers it in version 0 with UNSUPPORTED_VERSION
(KIP-511). No feature is supported or finalized yet, so every client keeps to transactions version 1
and classic groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.wire.api import APIS
from broker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from broker.server.node import Broker

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")
_SOFTWARE_FROM: Final = 3


def handle_api_versions(
    broker: Broker,
    context: RequestContext,
    request: ApiVersionsRequest,
    reply: Callable[[ApiVersionsResponse], None],
) -> None:
    """INVALID_REQUEST for a software name or version that is not plain (KIP-511)."""
    names = (request.client_software_name, request.client_software_version)
    is_plain = all(_SOFTWARE.fullmatch(name) for name in names)
    if context.api_version >= _SOFTWARE_FROM and not is_plain:
        reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    reply(ApiVersionsResponse(api_keys=advertised_apis(broker.routes), finalized_features_epoch=0))


def advertised_apis(handled: Iterable[int]) -> list[ApiVersion]:
    """Every API that has a handler, by key."""
    rows = [APIS[key] for key in sorted(handled)]
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in rows
    ]
