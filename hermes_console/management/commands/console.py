"""`manage.py console`: the console's own server, in development and in production."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Serve pages, API and live sockets; sample the clusters; embedded, also run tasks."
    requires_system_checks: list[
        str
    ] = []  # the checks import every URL: `manage.py check` runs them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
        parser.add_argument(
            "--supervised", action="store_true", help="end when standard input closes"
        )
        parser.add_argument(
            "--no-prepare", action="store_true", help="leave the databases as they are"
        )
        parser.add_argument(
            "--tasks",
            action="store_true",
            help="run worker and beat in this process with Redis too (without Redis it always "
            "does); for one console of an installation that has no other worker",
        )
        parser.add_argument(
            "--signin-link", action="store_true", help="print a one-time link before `ready`"
        )
        parser.add_argument(
            "--signin-link-file",
            type=Path,
            help="write a one-time link there instead, readable by this user alone",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        # Daphne installs Twisted's asyncio reactor when it is imported: before anything else that
        # uses Twisted.
        import daphne.server  # noqa: F401  isort:skip
        from hermes_console.runner import AddressTaken, ConsoleServer
        from hermes_console.storage import prepare_storage

        if not options["no_prepare"]:
            prepare_storage()
        try:
            server = ConsoleServer(
                host=options["host"],
                port=options["port"],
                is_supervised=options["supervised"],
                prints_link=options["signin_link"],
                link_file=options["signin_link_file"],
                runs_tasks=options["tasks"],
            )
        except AddressTaken as error:
            raise CommandError(str(error)) from error
        server.run()
