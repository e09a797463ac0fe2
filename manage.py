#!/usr/bin/env python
"""Django's command line for the console: `.venv/bin/python manage.py console` runs it,
`manage.py help` lists the rest.
"""

from __future__ import annotations

import os
import sys

try:
    from django.core.management import execute_from_command_line
except ModuleNotFoundError:
    sys.exit(
        "manage.py: this Python has no Django; run it with the environment that ./hermes makes: "
        ".venv/bin/python manage.py …"
    )

from hermes_console.environment import BadEnvironment


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hermes_console.settings")
    try:
        execute_from_command_line(sys.argv)
    except BadEnvironment as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
