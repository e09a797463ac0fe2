"""The console's database before the console starts: a backup, then its migrations, when needed.

Whether they are needed is asked without loading Django: the names of all migration files and of
the locked packages are compared with those that were applied last (`migrated.txt` in the console's
directory). That keeps a start with nothing to do under a tenth of a second.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from broker.up.oneshot import run_once
from broker.up.options import UpOptions
from broker.up.plan import console_environment

BACKUPS_MAX: Final = 5
DATABASE: Final = "console.sqlite3"
"""The samples have a file of their own, are cheap to lose and are not backed up."""
_MARK: Final = "migrated.txt"
_APPLICATIONS: Final = ("hermes_console", "tenants")


class MigrationFault(Exception):
    """The migrations could not be applied; the message has the command's last lines."""


async def prepare_database(options: UpOptions, python: str, stamp: str) -> str | None:
    """Bring the console's database up to date; what was done, or None. `stamp` names the backups.

    Raises MigrationFault; the database is then as the failed migration left it and the backup,
    which the message names, as it was before.
    """
    wanted = fingerprint(options.home)
    mark = options.console_data / _MARK
    if mark.is_file() and mark.read_text(encoding="ascii") == wanted and not _is_external():
        return None
    options.console_data.mkdir(parents=True, exist_ok=True)
    database = options.console_data / DATABASE
    saved = backup(database, stamp) if database.is_file() else None
    outcome = await run_once(
        (python, "manage.py", "prepare"),
        environment=console_environment(options),
        working_directory=options.home,
    )
    if outcome.code != 0:
        hint = f"\nThe backup is {saved}." if saved else ""
        msg = f"the console's database could not be migrated:\n{outcome.output}{hint}"
        raise MigrationFault(msg)
    mark.write_text(wanted, encoding="ascii")
    return f"console database migrated; backup: {saved}" if saved else "console database created"


def fingerprint(home: Path) -> str:
    """Changes whenever a migration or a locked package does."""
    digest = hashlib.sha256((home / "requirements.lock").read_bytes())
    for application in _APPLICATIONS:
        for path in sorted((home / application).rglob("migrations/[0-9]*.py")):
            digest.update(str(path.relative_to(home)).encode())
    return digest.hexdigest()


def backup(database: Path, stamp: str) -> Path:
    """A consistent copy of a SQLite file in `backups/` beside it; the oldest ones are removed."""
    directory = database.parent / "backups"
    directory.mkdir(exist_ok=True)
    target = directory / f"{database.stem}-{stamp}.sqlite3"
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    for old in sorted(directory.glob(f"{database.stem}-*.sqlite3"))[:-BACKUPS_MAX]:
        old.unlink()
    return target


def _is_external() -> bool:
    """Another database than the embedded one: only Django knows what it has."""
    return bool(os.environ.get("HERMES_DATABASE_URL"))
