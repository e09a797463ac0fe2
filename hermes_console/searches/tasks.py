"""Celery tasks of searches: one slice, then the next; and waking what nobody works on."""

from __future__ import annotations

import logging
from typing import Final

from celery import shared_task
from kombu.exceptions import OperationalError

from hermes_console.searches.slices import run_slice, wake

IDLE_MS: Final = 5_000

log = logging.getLogger(__name__)


@shared_task(name="hermes_console.searches.tasks.search_slice")
def search_slice(key: str, number: int) -> None:
    """Delivered twice or late, it does no harm: see `slices`."""
    following = run_slice(key, number)
    if following is not None:
        search_slice.delay(key, following)


@shared_task(name="hermes_console.searches.tasks.wake_searches")
def wake_searches() -> None:
    """The database knows which slices are due; a lost message only delays them."""
    wake(search_slice.delay, idle_ms=IDLE_MS)


def ask_for_slice(key: str, number: int) -> bool:
    """Put the slice into the queue; False when the queue cannot be reached. The search is not lost
    then: it waits in the database, and `wake_searches` asks for it once the queue is back.
    """
    try:
        search_slice.delay(key, number)
    except OperationalError as error:
        log.warning("search %s waits, the task queue cannot be reached: %s", key, error)
        return False
    return True
