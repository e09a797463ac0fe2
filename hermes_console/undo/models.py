"""The table of offset changes that can be undone."""

from __future__ import annotations

from django.db import models

from hermes_console.clusters import Cluster


class OffsetChange(models.Model):
    """One act on one group's commits: `moves` is `groups_plan.moves_text`, before and after of each
    partition. It can be undone until `expires_at`, once.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE)
    group = models.TextField()
    act = models.CharField(max_length=32)
    made_at = models.DateTimeField()
    made_by = models.CharField(max_length=150)
    expires_at = models.DateTimeField()
    moves = models.TextField()
    undone_at = models.DateTimeField(null=True)
    undone_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("-made_at", "-pk")
        indexes = (models.Index(fields=("cluster", "made_at"), name="offset_change_time"),)

    def __str__(self) -> str:
        return f"{self.act} {self.group} {self.made_at:%Y-%m-%d %H:%M:%S}"
