"""The clusters this console watches: ours or Apache Kafka, each by its bootstrap address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.core.validators import RegexValidator
from django.db import models

from hermes_console.environment import CLUSTER_NAME_PATTERN

if TYPE_CHECKING:
    from hermes_console.environment import Environment

CLUSTERS_MAX: Final = 32
CLUSTER_ID_LENGTH_MAX: Final = 255


class ClusterKind(models.TextChoices):
    """What answers at the address: it decides which metrics and settings can be asked for."""

    OURS = "ours", "HermesMQ"
    KAFKA = "kafka", "Apache Kafka"


class Cluster(models.Model):
    """One row per cluster. `metrics_address` is the URL of the broker's metrics text, empty when
    there is none; `cluster_id` what it called itself when it was tested last, empty when unknown.
    """

    name = models.CharField(
        max_length=63,
        unique=True,
        validators=[RegexValidator(rf"\A{CLUSTER_NAME_PATTERN.pattern}\Z")],
    )
    bootstrap_address = models.CharField(max_length=1024)
    metrics_address = models.CharField(max_length=1024, blank=True)
    kind = models.CharField(max_length=16, choices=ClusterKind.choices, default=ClusterKind.OURS)
    cluster_id = models.CharField(
        max_length=CLUSTER_ID_LENGTH_MAX, blank=True, default="", db_default=""
    )
    is_from_environment = models.BooleanField(default=False)

    class Meta:
        app_label = "console"
        ordering = ("-is_from_environment", "name")

    def __str__(self) -> str:
        return self.name


def upsert_environment_cluster(environment: Environment) -> Cluster:
    """The row for HERMES_BOOTSTRAP and HERMES_METRICS_URL, made or brought up to date: run at every
    start.
    """
    cluster, _ = Cluster.objects.update_or_create(
        name=environment.cluster_name,
        defaults={
            "bootstrap_address": environment.bootstrap,
            "metrics_address": environment.metrics_url,
            "is_from_environment": True,
        },
    )
    return cluster


def default_cluster() -> Cluster | None:
    """The cluster that a page shows when none is named: the environment's, else the first."""
    return Cluster.objects.first()
