"""Bringing the databases up to date before the console serves: directory, backup, migrations, the
default cluster.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from hermes_console.clusters import upsert_environment_cluster

BACKUPS_KEPT: Final = 3

log = logging.getLogger(__name__)


def prepare_storage() -> None:
    """What a console does before it serves: `migrate_storage`, and the environment's cluster is
    entered.
    """
    migrate_storage()
    upsert_environment_cluster(settings.ENVIRONMENT)


def migrate_storage() -> None:
    """After this the databases fit this version of the code. A SQLite file is copied aside before
    it is migrated.
    """
    settings.ENVIRONMENT.console_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for alias in connections:
        connection = connections[alias]
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if not plan:
            continue
        if connection.vendor == "sqlite" and executor.loader.applied_migrations:
            back_up(Path(str(connection.settings_dict["NAME"])))
        call_command("migrate", database=alias, interactive=False, verbosity=0)


def back_up(file: Path) -> None:
    """Copy a SQLite file, open or not, to `<file>.backup-<n>`; the newest has the highest n,
    BACKUPS_KEPT stay.
    """
    backups = sorted(file.parent.glob(f"{file.name}.backup-*"), key=_backup_number)
    number = _backup_number(backups[-1]) + 1 if backups else 1
    target = file.with_name(f"{file.name}.backup-{number}")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    target.chmod(0o600)
    for old in backups[: len(backups) + 1 - BACKUPS_KEPT]:
        old.unlink()
    log.info("backed up %s to %s before its migration", file.name, target.name)


def _backup_number(path: Path) -> int:
    digits = path.name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
