"""The console itself: clusters, commands, template tags."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "hermes_console"
    label = "console"
    verbose_name = "HermesMQ console"

    def ready(self) -> None:
        """Tasks are sent through our Celery, whichever process sends them."""
        from hermes_console import celery  # noqa: F401
