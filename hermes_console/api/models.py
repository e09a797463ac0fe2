"""What the API remembers between requests: answers to POSTs by their Idempotency-Key."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class StoredAnswer(models.Model):
    """`status` is empty while the request is in work. One row per credential and key: `token_id`
    is that of the API token, 0 for the account's sessions. A token may reach less than its account.
    """

    user_id = models.BigIntegerField()
    token_id = models.BigIntegerField(default=0, db_default=0)
    key = models.CharField(max_length=255)
    path = models.CharField(max_length=1024)
    body_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    content_type = models.CharField(max_length=64, blank=True)
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "token_id", "key"], name="one_answer_per_credential"
            )
        ]

    def __str__(self) -> str:
        return f"{self.key}: {self.status}"
