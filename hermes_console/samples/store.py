"""Writes snapshots and history: one transaction per look at a cluster. Only the holder of the lease
calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from django.conf import settings
from django.db import connections, transaction

from hermes_console.names import is_storable
from hermes_console.samples.models import (
    RAW_RESOLUTION_S,
    ClusterLatest,
    ClusterSample,
    GroupLatest,
    GroupSample,
    Series,
)
from hermes_console.samples.snapshot import ClusterSnapshot, GroupDetail, detail_text

NAMES_PER_DELETE: Final = 500
INSERT_SAMPLE: Final = (
    f"INSERT INTO {GroupSample._meta.db_table} "  # noqa: S608, SLF001  our own name
    "(series_id, resolution_s, at_s, lag, lag_seconds) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT DO NOTHING"
)


class SampleStore:
    """The rows of one cluster. Remembers what it wrote, to leave out what did not change.

    A group whose name PostgreSQL cannot keep stands in the cluster's list alone: whoever may join a
    group may call it so, and must not stop the history of all others.
    """

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._series: dict[str, int] = {}
        self._written: dict[str, str] | None = None
        self._parts: dict[str, tuple[GroupDetail, list[str]]] = {}

    def write(self, snapshot: ClusterSnapshot, details: Sequence[GroupDetail]) -> None:
        """A successful look: the latest of cluster and groups, one sample of each."""
        texts, parts = {}, {}
        for detail in details:
            name = detail.summary.name
            if not is_storable(name):
                continue
            texts[name], of_partitions = detail_text(detail, self._parts.get(name))
            parts[name] = (detail, of_partitions)
        self._parts = parts
        before = self._written
        with transaction.atomic(using=settings.SAMPLES_DATABASE):
            self.write_latest(snapshot)
            if before is None:
                before = self._stored()
            self._write_groups({n: t for n, t in texts.items() if before.get(n) != t})
            self._delete_groups(before.keys() - texts.keys())
            self._write_samples(snapshot)
        self._written = texts

    def write_latest(self, snapshot: ClusterSnapshot) -> None:
        """After a failed look this is all there is to write."""
        ClusterLatest.objects.update_or_create(
            cluster_id=self._cluster_id,
            defaults={"sequence": snapshot.sequence, "payload": snapshot.to_text()},
        )

    def load(self) -> ClusterSnapshot | None:
        """What the process before this one knew last."""
        row = ClusterLatest.objects.filter(cluster_id=self._cluster_id).first()
        return None if row is None else ClusterSnapshot.from_text(row.payload)

    def _stored(self) -> dict[str, str]:
        rows = GroupLatest.objects.filter(cluster_id=self._cluster_id)
        return dict(rows.values_list("name", "payload"))

    def _write_groups(self, texts: dict[str, str]) -> None:
        GroupLatest.objects.bulk_create(
            [
                GroupLatest(cluster_id=self._cluster_id, name=name, payload=text)
                for name, text in texts.items()
            ],
            update_conflicts=True,
            unique_fields=["cluster_id", "name"],
            update_fields=["payload"],
        )

    def _delete_groups(self, names: Iterable[str]) -> None:
        gone = sorted(names)
        for start in range(0, len(gone), NAMES_PER_DELETE):
            GroupLatest.objects.filter(
                cluster_id=self._cluster_id, name__in=gone[start : start + NAMES_PER_DELETE]
            ).delete()

    def _write_samples(self, snapshot: ClusterSnapshot) -> None:
        at_s = snapshot.at_ms // 1000
        ClusterSample.objects.bulk_create(
            [
                ClusterSample(
                    cluster_id=self._cluster_id,
                    resolution_s=RAW_RESOLUTION_S,
                    at_s=at_s,
                    messages_in_per_s=snapshot.rates.messages_in,
                    bytes_in_per_s=snapshot.rates.bytes_in,
                    bytes_out_per_s=snapshot.rates.bytes_out,
                    messages_out_per_s=snapshot.rates.messages_out,
                    disk_used_bytes=snapshot.disk.used_bytes,
                )
            ],
            ignore_conflicts=True,
        )
        groups = [group for group in snapshot.groups if is_storable(group.name)]
        series = self._series_of([group.name for group in groups])
        # Thousands of rows a second: without a model instance for each, at a fifth of the cost.
        with connections[settings.SAMPLES_DATABASE].cursor() as cursor:
            cursor.executemany(
                INSERT_SAMPLE,
                [
                    (series[group.name], RAW_RESOLUTION_S, at_s, group.lag, group.lag_seconds)
                    for group in groups
                ],
            )

    def _series_of(self, names: Sequence[str]) -> dict[str, int]:
        """Primary keys by group, made for those that are new."""
        missing = [name for name in names if name not in self._series]
        if missing:
            Series.objects.bulk_create(
                [Series(cluster_id=self._cluster_id, group=name) for name in missing],
                ignore_conflicts=True,
            )
            self._series = dict(
                Series.objects.filter(cluster_id=self._cluster_id).values_list("group", "pk")
            )
        return self._series
