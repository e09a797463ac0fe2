"""Who samples a cluster: the process that holds its row until it expires. Times are passed in."""

from __future__ import annotations

from typing import Final

from django.db import IntegrityError
from django.db.models import Q

from hermes_console.samples.models import SamplerLease

LEASE_MS: Final = 12_000


def hold_lease(cluster_id: int, owner: str, now_ms: int) -> bool:
    """Whether `owner` holds the cluster's lease until now + LEASE_MS: taken when free or expired,
    else prolonged.
    """
    expires_at_ms = now_ms + LEASE_MS
    is_held = (
        SamplerLease.objects.filter(cluster_id=cluster_id)
        .filter(Q(owner=owner) | Q(expires_at_ms__lte=now_ms))
        .update(owner=owner, expires_at_ms=expires_at_ms)
    )
    if is_held:
        return True
    if SamplerLease.objects.filter(cluster_id=cluster_id).exists():
        return False
    try:
        SamplerLease.objects.create(cluster_id=cluster_id, owner=owner, expires_at_ms=expires_at_ms)
    except IntegrityError:  # another process was a moment faster
        return False
    return True


def release_lease(cluster_id: int, owner: str) -> None:
    """Lets the next process begin at once; does nothing when another holds it."""
    SamplerLease.objects.filter(cluster_id=cluster_id, owner=owner).delete()
