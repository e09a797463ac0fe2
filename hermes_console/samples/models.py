"""Tables of samples. Clusters are referred to by their primary key alone: embedded, they live in
another file.

Times are milliseconds (`_ms`) or seconds (`_s`) since 1970 UTC. History keeps one row per series,
resolution and time.
"""

from __future__ import annotations

from typing import Final

from django.db import models

RAW_RESOLUTION_S: Final = 1


class SamplerLease(models.Model):
    """Who samples a cluster until when: one row per cluster, taken by a conditional update."""

    cluster_id = models.BigIntegerField(primary_key=True)
    owner = models.CharField(max_length=100)
    expires_at_ms = models.BigIntegerField()

    def __str__(self) -> str:
        return f"cluster {self.cluster_id}: {self.owner}"


class ClusterLatest(models.Model):
    """The newest snapshot of a cluster without its groups' details, as JSON text."""

    cluster_id = models.BigIntegerField(primary_key=True)
    sequence = models.BigIntegerField()
    payload = models.TextField()

    def __str__(self) -> str:
        return f"cluster {self.cluster_id} at {self.sequence}"


class GroupLatest(models.Model):
    """The newest details of one group: partitions and members, as JSON text."""

    cluster_id = models.BigIntegerField()
    name = models.CharField(max_length=255)
    payload = models.TextField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("cluster_id", "name"), name="one_latest_per_group"),
        )

    def __str__(self) -> str:
        return self.name


class Series(models.Model):
    """A group whose history is kept; a deleted group's series goes after its last sample."""

    cluster_id = models.BigIntegerField()
    group = models.CharField(max_length=255)

    class Meta:
        verbose_name_plural = "series"
        constraints = (
            models.UniqueConstraint(fields=("cluster_id", "group"), name="one_series_per_group"),
        )

    def __str__(self) -> str:
        return self.group


class GroupSample(models.Model):
    """A group's lag at a time; at coarser resolutions the highest of the interval that begins at
    `at_s`.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE)
    resolution_s = models.PositiveSmallIntegerField()
    at_s = models.BigIntegerField()
    lag = models.BigIntegerField(null=True)
    lag_seconds = models.FloatField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("series", "resolution_s", "at_s"), name="one_group_sample_per_time"
            ),
        )
        indexes = (models.Index(fields=("resolution_s", "at_s"), name="group_sample_time"),)

    def __str__(self) -> str:
        return f"{self.series_id}@{self.at_s}"


class ClusterSample(models.Model):
    """A cluster's rates and disk at a time; at coarser resolutions the highest of the interval."""

    cluster_id = models.BigIntegerField()
    resolution_s = models.PositiveSmallIntegerField()
    at_s = models.BigIntegerField()
    messages_in_per_s = models.FloatField(null=True)
    bytes_in_per_s = models.FloatField(null=True)
    bytes_out_per_s = models.FloatField(null=True)
    messages_out_per_s = models.FloatField(null=True)
    disk_used_bytes = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("cluster_id", "resolution_s", "at_s"), name="one_cluster_sample_per_time"
            ),
        )
        indexes = (models.Index(fields=("resolution_s", "at_s"), name="cluster_sample_time"),)

    def __str__(self) -> str:
        return f"{self.cluster_id}@{self.at_s}"
