"""Registers the app."""

from __future__ import annotations

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "hermes_console.audit"
    label = "audit"
