"""The end of the audit's rows: after HERMES_AUDIT_DAYS they go, and that they went is a row itself.

The one place that deletes from the audit. A slice is bounded; the task asks for the next one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from hermes_console.accounts.actor import system_actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.models import AuditEvent
from hermes_console.audit.record import audited

ROWS_PER_STEP: Final = 1_000
STEPS_PER_SLICE: Final = 10
PRUNER: Final = "console"
ACTION: Final = "audit.prune"


def prune_slice(now: datetime, kept_days: int) -> bool:
    """Whether older rows are left. `kept_days` 0 keeps them for ever. Nothing goes unless the row
    that tells of it can be written: raises AuditUnavailable.
    """
    if kept_days == 0:
        return False
    before = now - timedelta(days=kept_days)
    if not AuditEvent.objects.filter(at__lt=before).exists():
        return False
    with audited(
        system_actor(PRUNER),
        Right.AUDIT_READ,
        ACTION,
        cluster=None,
        target=f"rows before {before:%Y-%m-%d %H:%M} UTC",
    ) as act:
        gone = step = ROWS_PER_STEP
        count = 0
        for _ in range(STEPS_PER_SLICE):
            gone = AuditEvent.objects.prune(before, step)
            count += gone
            if gone < step:
                break
        act.after = {"rows": count, "kept_days": kept_days}
    return gone == step
