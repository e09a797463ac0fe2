"""The one-time sign-in link of the first administrator, from the console's own command."""

from __future__ import annotations

from broker.up.oneshot import run_once
from broker.up.options import UpOptions
from broker.up.plan import console_environment


async def sign_in_link(options: UpOptions, python: str) -> str:
    """The link, or the console's address and how to get one when the command failed."""
    outcome = await run_once(
        (python, "manage.py", "signin_link"),
        environment=console_environment(options),
        working_directory=options.home,
    )
    words = outcome.output.split()
    links = [word for word in words if word.startswith(("http://", "https://"))]
    if outcome.code != 0 or not links:
        return f"{options.console_url} (python manage.py signin_link makes a link)"
    return links[-1]
