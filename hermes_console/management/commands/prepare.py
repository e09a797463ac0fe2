"""`manage.py prepare`: what the console does before it serves, by hand (PostgreSQL: once per
release).
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from hermes_console.storage import prepare_storage


class Command(BaseCommand):
    help = "Back up and migrate the databases and enter the default cluster."

    def handle(self, *_args: Any, **_options: Any) -> None:
        prepare_storage()
        self.stdout.write("prepared")
