"""Logging set-up of every HermesMQ process: structlog and the standard library through one
renderer, to stderr.

Two formats: `json` (one object a line, for collectors) and `console` (for eyes). Nothing else
configures logging.
"""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TextIO

import structlog


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


def configure_logging(
    level: str = "INFO",
    log_format: LogFormat | str = LogFormat.CONSOLE,
    stream: TextIO | None = None,
) -> None:
    """Set up the process's logging; later calls replace earlier ones. Raises ValueError for an
    unknown level or format.
    """
    threshold = _threshold(level)
    target = stream if stream is not None else sys.stderr
    shared = _shared_processors()
    renderer = _renderer(LogFormat(log_format), target)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    logging.getLogger("asyncio").setLevel(max(threshold, logging.WARNING))


def _shared_processors() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _renderer(log_format: LogFormat, target: TextIO) -> list[structlog.typing.Processor]:
    if log_format is LogFormat.JSON:
        return [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(
            colors=target.isatty(),
            # Rich tracebacks print local variables: records and secrets do not belong in a log.
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]


def _threshold(level: str) -> int:
    threshold = logging.getLevelNamesMapping().get(level.upper())
    if threshold is None:
        msg = f"unknown log level {level!r}: use DEBUG, INFO, WARNING, ERROR or CRITICAL"
        raise ValueError(msg)
    return threshold
