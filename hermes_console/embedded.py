"""Celery's worker and beat as threads of the console's process: the embedded installation needs no
other process.

`start()` returns at once; `stop()` asks both to end and waits at most STOP_S_MAX. A running task
may be cut off by the process's end: tasks are idempotent and take slices.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from celery.beat import Scheduler, Service

from hermes_console.celery import app

STOP_S_MAX: Final = 2.0
BEAT_INTERVAL_S_MAX: Final = 1

log = logging.getLogger(__name__)


class EmbeddedCelery:
    """One worker (pool solo) and one beat with an in-memory schedule."""

    def __init__(self) -> None:
        self._worker: Any = app.WorkController(
            pool="solo",
            concurrency=1,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
            hostname="embedded@console",
        )
        self._beat: Any = Service(app, max_interval=BEAT_INTERVAL_S_MAX, scheduler_cls=Scheduler)
        self._threads = [
            threading.Thread(
                target=self._run, args=(self._worker,), name="celery-worker", daemon=True
            ),
            threading.Thread(target=self._run, args=(self._beat,), name="celery-beat", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        for part in (self._beat, self._worker):
            try:
                part.stop()
            except Exception:
                log.warning("celery did not stop in order", exc_info=True)
        for thread in self._threads:
            thread.join(STOP_S_MAX / len(self._threads))

    @staticmethod
    def _run(part: Any) -> None:
        try:
            part.start()
        except SystemExit:
            return
        except Exception:
            log.exception(
                "%s ended; tasks wait until the console starts again", type(part).__name__
            )
