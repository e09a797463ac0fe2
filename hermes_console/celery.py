"""Celery: short tasks (≤ 5 s each, a slice at a time). Embedded on the file system, otherwise on
Redis.

In the embedded console, worker and beat are threads of the console's process
(`hermes_console/embedded.py`); with HERMES_REDIS_URL they are processes of their own: `celery -A
hermes_console.celery worker` and `… beat`.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hermes_console.settings")

from hermes_console import taskfiles
from hermes_console.settings import ENVIRONMENT

DOWNSAMPLE_EVERY_S = 10.0
WAKE_SEARCHES_EVERY_S = 5.0
PRUNE_AUDIT_EVERY_S = 600.0


def _transport() -> dict[str, Any]:
    if ENVIRONMENT.redis_url is not None:
        return {"broker_url": ENVIRONMENT.redis_url}
    taskfiles.register()
    folders = ENVIRONMENT.console_directory / "tasks"
    for name in ("queue", "control"):
        (folders / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    return {
        "broker_url": f"{taskfiles.SCHEME}://localhost",
        "broker_transport_options": {
            "data_folder_in": str(folders / "queue"),
            "data_folder_out": str(folders / "queue"),
            "control_folder": str(folders / "control"),
            "polling_interval": 0.5,
        },
    }


app = Celery("hermes_console")
app.conf.update(
    **_transport(),
    task_ignore_result=True,
    task_acks_late=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    timezone="UTC",
    imports=(
        "hermes_console.audit.tasks",
        "hermes_console.samples.tasks",
        "hermes_console.searches.tasks",
    ),
    beat_schedule={
        "thin-samples": {
            "task": "hermes_console.samples.tasks.thin_samples",
            "schedule": DOWNSAMPLE_EVERY_S,
            "options": {"expires": DOWNSAMPLE_EVERY_S},
        },
        "prune-audit": {
            "task": "hermes_console.audit.tasks.prune_audit",
            "schedule": PRUNE_AUDIT_EVERY_S,
            "options": {"expires": PRUNE_AUDIT_EVERY_S},
        },
        "wake-searches": {
            "task": "hermes_console.searches.tasks.wake_searches",
            "schedule": WAKE_SEARCHES_EVERY_S,
            "options": {"expires": WAKE_SEARCHES_EVERY_S},
        },
    },
)
