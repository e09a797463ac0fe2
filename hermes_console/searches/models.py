"""Searches and what they found. Times are milliseconds since 1970 UTC.

A job moves by slices: who holds the lease and the slice's number may save, once. Its end offsets
are those of its start: it ends however fast the topic grows. Found messages are kept by their
place; their contents stay in the cluster.
"""

from __future__ import annotations

from django.db import models

from hermes_console.clusters import Cluster


class State(models.TextChoices):
    """RUNNING waits for, or is in, its next slice; all others are at rest. FULL, CANCELLED and
    FAILED can be resumed where they stopped.
    """

    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FULL = "full", "Stopped: enough found"
    CANCELLED = "cancelled", "Cancelled"
    FAILED = "failed", "Failed"


RESUMABLE = frozenset({State.FULL, State.CANCELLED, State.FAILED})


class SearchJob(models.Model):
    """One search. `positions` is per partition (as text: JSON) the next offset, `starts` and `ends`
    the range [start, end).
    """

    key = models.CharField(max_length=32, unique=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE)
    topic = models.CharField(max_length=249)
    topic_id = models.CharField(max_length=32, blank=True)
    actor = models.CharField(max_length=150)
    criteria = models.JSONField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    reason = models.CharField(max_length=1024, blank=True)
    starts = models.JSONField()
    ends = models.JSONField()
    positions = models.JSONField()
    hits_limit = models.PositiveIntegerField()
    hit_count = models.PositiveIntegerField(default=0)
    scanned_records = models.BigIntegerField(default=0)
    scanned_bytes = models.BigIntegerField(default=0)
    unreadable_batches = models.PositiveIntegerField(default=0)
    busy_ms = models.BigIntegerField(default=0)
    slice_number = models.PositiveIntegerField(default=0)
    failures = models.PositiveSmallIntegerField(default=0)
    lease_owner = models.CharField(max_length=64, blank=True)
    lease_until_ms = models.BigIntegerField(default=0)
    created_at_ms = models.BigIntegerField()
    updated_at_ms = models.BigIntegerField()

    class Meta:
        ordering = ("-pk",)
        indexes = (
            models.Index(fields=("state", "lease_until_ms"), name="search_due"),
            models.Index(fields=("cluster", "topic"), name="search_of_topic"),
        )

    def __str__(self) -> str:
        return f"{self.topic}: {self.state}"

    @property
    def is_running(self) -> bool:
        return self.state == State.RUNNING

    @property
    def is_resumable(self) -> bool:
        return self.state in RESUMABLE

    @property
    def total_records(self) -> int:
        """Offsets to look at."""
        return sum(int(end) - int(self.starts[one]) for one, end in self.ends.items())

    @property
    def passed_records(self) -> int:
        """Offsets behind the positions."""
        return sum(int(at) - int(self.starts[one]) for one, at in self.positions.items())

    @property
    def percent(self) -> int:
        total = self.total_records
        return 100 if total <= 0 else min(100, self.passed_records * 100 // total)

    @property
    def bytes_per_s(self) -> float | None:
        return self.scanned_bytes * 1000 / self.busy_ms if self.busy_ms > 0 else None


class SearchHit(models.Model):
    """A message that was found, by its place."""

    job = models.ForeignKey(SearchJob, on_delete=models.CASCADE, related_name="hits")
    partition = models.PositiveIntegerField()
    offset = models.BigIntegerField()
    timestamp_ms = models.BigIntegerField()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("job", "partition", "offset"), name="one_hit_per_place"
            ),
        )

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"
