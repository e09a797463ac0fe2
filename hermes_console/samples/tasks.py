"""Celery tasks of the samples: thinning the history. A task does one slice and asks for the next
one.
"""

from __future__ import annotations

import time

from celery import shared_task

from hermes_console.samples.downsample import thin_slice


@shared_task(name="hermes_console.samples.tasks.thin_samples")
def thin_samples() -> None:
    """Delivered twice or late, it does no harm: every slice is worked out from what the tables
    hold.
    """
    if thin_slice(int(time.time())):
        thin_samples.delay()
