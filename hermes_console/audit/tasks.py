"""Celery tasks of the audit: old rows go, a slice at a time."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from hermes_console.audit.prune import prune_slice


@shared_task(name="hermes_console.audit.tasks.prune_audit")
def prune_audit() -> None:
    """Delivered twice or late, it does no harm: the time decides what goes."""
    if prune_slice(timezone.now(), settings.ENVIRONMENT.audit_days):
        prune_audit.delay()
