"""What of the log is for people: a refusal that we expect is a line, not a trace."""

from __future__ import annotations

import logging
from typing import Final

from django.core.exceptions import DisallowedHost, PermissionDenied
from django.http import Http404

from hermes_console.errors import Refused

EXPECTED: Final = (DisallowedHost, Http404, PermissionDenied, Refused)
"""Whoever asks so is told no; nothing of ours is broken."""


class ExpectedRefusals(logging.Filter):
    """Lets every record through; one of an expected refusal without its trace, as a warning."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, EXPECTED):
            record.exc_info = record.exc_text = None
            if record.levelno > logging.WARNING:
                record.levelno, record.levelname = logging.WARNING, "WARNING"
            text, why = record.getMessage(), str(error)
            record.msg, record.args = text if why in text else f"{text} ({why})", None
        return True
