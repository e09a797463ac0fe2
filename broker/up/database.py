"""The console's database before the console starts: a backup, then its migrations, when needed.

Whether they are needed is asked without loading Django: the names of all migration files and of
the locked packages are compared with those that were applied last (`migrated.txt` in the console's
directory). That keeps a start with nothing to do under a tenth of a second.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from broker.up.options import UpOptions
from broker.up.plan import console_environment

BACKUPS_MAX: Final = 5
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
    backups = [backup(path, stamp) for path in sorted(options.console_data.glob("*.sqlite3"))]
    process = await asyncio.create_subprocess_exec(
        *(python, "manage.py", "migrate_all"),
        cwd=options.home,
        env={**os.environ, **console_environment(options)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        saved = f" The backup is {', '.join(map(str, backups))}." if backups else ""
        raise MigrationFault(output.decode(errors="replace").strip() + saved)
    mark.write_text(wanted, encoding="ascii")
    if backups:
        return f"console database migrated; backup in {backups[0].parent}"
    return "console database created"


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
