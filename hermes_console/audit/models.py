"""The audit: one row per act, written before the act and completed once after it. Nothing in the
console changes a completed row; only `prune.py` deletes, by age alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Never

from django.db import models
from django.utils import timezone


class Outcome(models.TextChoices):
    """How an act ended. One that stays `started` was cut off by the console's end: nobody knows."""

    STARTED = "started", "Unknown"
    DONE = "done", "Done"
    REFUSED = "refused", "Refused"
    FAILED = "failed", "Failed"


class AppendOnly(Exception):
    """Somebody tried to change or delete what the audit keeps."""


class AuditQuerySet(models.QuerySet["AuditEvent"]):
    """Reads and inserts; `record.py` completes rows by `complete`, once."""

    def complete(self, key: int, values: dict[str, Any]) -> int:
        """How many rows it was: 0 when the row is complete already."""
        rows = self.filter(pk=key, outcome=Outcome.STARTED)
        return super(AuditQuerySet, rows).update(**values)

    def prune(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` of the oldest rows from before that time; how many it were."""
        keys = self.filter(at__lt=before).order_by("pk").values_list("pk", flat=True)[:limit]
        rows = self.filter(pk__in=list(keys))
        return super(AuditQuerySet, rows).delete()[0]

    def update(self, **_values: Any) -> Never:
        raise AppendOnly("the audit is append-only")

    def delete(self) -> Never:
        raise AppendOnly("the audit is append-only")


class AuditEvent(models.Model):
    """`cluster_id` is no foreign key: rows outlive clusters and accounts."""

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor = models.CharField(max_length=150, db_index=True)
    via = models.CharField(max_length=16)
    address = models.CharField(max_length=45, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=64, db_index=True)
    right = models.CharField(max_length=32, blank=True)
    cluster = models.CharField(max_length=63, blank=True, db_index=True)
    cluster_id = models.BigIntegerField(null=True, blank=True)
    target = models.CharField(max_length=512, blank=True)
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    outcome = models.CharField(max_length=16, choices=Outcome.choices, default=Outcome.STARTED)
    reason = models.CharField(max_length=1024, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}: {self.outcome}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("the audit is append-only")
        super().save(*args, **kwargs)

    def delete(self, *_args: Any, **_kwargs: Any) -> Never:
        raise AppendOnly("the audit is append-only")
