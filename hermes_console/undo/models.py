"""The tables of offset changes that can be undone, and of who changes a group right now."""

from __future__ import annotations

from django.db import models

from hermes_console.clusters import Cluster


class OffsetChange(models.Model):
    """One act on one group's commits: `moves` is `groups_plan.moves_text`, before and after of each
    partition. It can be undone until `expires_at`, once. The row is written before the act;
    `is_unsure` until the offsets were seen where the act puts them.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE)
    group = models.TextField()
    act = models.CharField(max_length=32)
    made_at = models.DateTimeField()
    made_by = models.CharField(max_length=150)
    expires_at = models.DateTimeField()
    moves = models.TextField()
    is_unsure = models.BooleanField(default=False, db_default=False)
    undone_at = models.DateTimeField(null=True)
    undone_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("-made_at", "-pk")
        indexes = (models.Index(fields=("cluster", "made_at"), name="offset_change_time"),)

    def __str__(self) -> str:
        return f"{self.act} {self.group} {self.made_at:%Y-%m-%d %H:%M:%S}"


class GroupLock(models.Model):
    """Whoever holds the row changes the group's offsets; an expired one is free. `key` is a hash of
    cluster and group.
    """

    key = models.CharField(max_length=64, primary_key=True)
    holder = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.key
