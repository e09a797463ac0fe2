"""`manage.py signin_link`: print a one-time sign-in link, for an operator or a named account."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from hermes_console.accounts.links import LIFETIME, create_local_link, first_administrator
from hermes_console.accounts.models import User
from hermes_console.storage import migrate_storage


class Command(BaseCommand):
    help = "Print a link that signs an account in, once, within 15 minutes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", help="where the console answers (default: HERMES_CONSOLE_URL)")
        parser.add_argument("--user", help="for this account (default: the first operator's)")

    @staticmethod
    def _owner(name: str | None) -> User:
        if name is None:
            return first_administrator()
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no account named {name!r}.")
        if not user.is_active:
            raise CommandError(f"{name} is disabled: an operator has to enable the account first.")
        return user

    def handle(self, *_args: Any, **options: Any) -> None:
        migrate_storage()  # and nothing of the environment: a console runs with its own
        token = create_local_link(self._owner(options["user"]))
        address = options["url"] or settings.ENVIRONMENT.console_url
        self.stdout.write(address.rstrip("/") + reverse("accounts:link", args=[token]))
        minutes = int(LIFETIME.total_seconds() // 60)
        self.stderr.write(f"It works once, within {minutes} minutes.")
