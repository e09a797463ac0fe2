"""Runs a command beside a PostgreSQL and a Redis of its own, named by the environment:
`python -m tests.support.with_services pytest tests/console`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.console.services import postgresql, redis
from tests.support.ports import free_port


def main(command: Sequence[str]) -> int:
    """The command's exit code; both services are gone afterwards, with their data."""
    with (
        tempfile.TemporaryDirectory(prefix="hermes-redis-") as directory,
        postgresql(free_port()) as database_url,
        redis(free_port(), Path(directory)) as redis_url,
    ):
        environment = {
            **os.environ,
            "HERMES_DATABASE_URL": database_url,
            "HERMES_REDIS_URL": redis_url,
        }
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
