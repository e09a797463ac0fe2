"""Celery's worker and beat as threads of the console's process: the embedded installation needs no
other process.

`start()` returns at once; `stop()` asks both to end and waits at most STOP_S_MAX. A running task
may be cut off by the process's end: tasks are idempotent and take slices.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from celery.beat import Scheduler, Service

from hermes_console.celery import app

STOP_S_MAX: Final = 2.0
BEAT_INTERVAL_S_MAX: Final = 1
AGAIN_S: Final = 2.0

log = logging.getLogger(__name__)


class EmbeddedCelery:
    """One worker (pool solo) and one beat with an in-memory schedule. One that fails is made anew
    after AGAIN_S.
    """

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._parts: dict[str, Any] = {"worker": _new_worker(), "beat": _new_beat()}
        self._threads = [
            threading.Thread(
                target=self._run, args=("worker", _new_worker), name="celery-worker", daemon=True
            ),
            threading.Thread(
                target=self._run, args=("beat", _new_beat), name="celery-beat", daemon=True
            ),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for part in reversed(list(self._parts.values())):
            try:
                part.stop()
            except Exception:
                log.warning("celery did not stop in order", exc_info=True)
        for thread in self._threads:
            thread.join(STOP_S_MAX / len(self._threads))

    def _run(self, name: str, make: Callable[[], Any]) -> None:
        while not self._stopping.is_set():
            try:
                self._parts[name].start()
                return
            except SystemExit:
                return
            except Exception:
                log.exception("the %s of tasks failed; it starts again in %s s", name, AGAIN_S)
            if self._stopping.wait(AGAIN_S):
                return
            self._parts[name] = make()


def _new_worker() -> Any:
    return app.WorkController(
        pool="solo",
        concurrency=1,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
        hostname="embedded@console",
    )


def _new_beat() -> Any:
    return Service(app, max_interval=BEAT_INTERVAL_S_MAX, scheduler_cls=Scheduler)
