"""Reading a broker's metrics address: bounded in time and bytes, through no proxy (it must not see
the addresses of brokers) and along no redirect (it may lead elsewhere).
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from typing import Final

SILENCE_S_MAX: Final = 2.0
WHOLE_S_MAX: Final = 10.0
"""Of all of the answer: one that drips in holds nobody for ever."""
BYTES_MAX: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024

_opener = urllib.request.OpenerDirector()
_opener.add_handler(urllib.request.HTTPHandler())
_opener.add_handler(urllib.request.HTTPSHandler())
_opener.add_handler(urllib.request.HTTPErrorProcessor())
_opener.add_handler(urllib.request.HTTPDefaultErrorHandler())


class MetricsUnread(Exception):
    """The metrics address did not answer; the message says what was tried and what came back."""


def read_metrics_text(address: str) -> str:
    """What answers at `address`, its first BYTES_MAX bytes at most. Raises MetricsUnread."""
    end_s = time.monotonic() + WHOLE_S_MAX
    content = bytearray()
    try:
        with _opener.open(address, timeout=SILENCE_S_MAX) as answer:
            while len(content) < BYTES_MAX and (chunk := answer.read1(CHUNK_BYTES)):
                content += chunk
                if time.monotonic() > end_s:
                    raise TimeoutError(f"the answer did not end within {WHOLE_S_MAX:.0f} s")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise MetricsUnread(f"Tried {address}: {reason}.") from error
    return content.decode("utf-8", "replace")
