"""`manage.py signin_link`: print a one-time sign-in link for the first administrator."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.urls import reverse

from hermes_console.accounts.links import LIFETIME, create_link, first_administrator
from hermes_console.storage import prepare_storage


class Command(BaseCommand):
    help = "Print a link that signs the first administrator in, once, within 15 minutes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", help="where the console answers (default: HERMES_CONSOLE_URL)")

    def handle(self, *_args: Any, **options: Any) -> None:
        prepare_storage()
        token = create_link(first_administrator())
        address = options["url"] or settings.ENVIRONMENT.console_url
        self.stdout.write(address.rstrip("/") + reverse("accounts:link", args=[token]))
        minutes = int(LIFETIME.total_seconds() // 60)
        self.stderr.write(f"It works once, within {minutes} minutes.")
