"""An installation from before there were roles: its administrator is an operator afterwards."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.console.console_process import ROOT

pytestmark = pytest.mark.timeout(120)


def manage(data: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "HERMES_DATA_DIR": str(data), "HERMES_DATABASE_URL": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_superusers_of_an_older_version_become_operators(tmp_path: Path) -> None:
    (tmp_path / "console").mkdir()
    manage(tmp_path, "migrate", "accounts", "0001", "--verbosity", "0")
    columns = (
        "password, is_superuser, username, first_name, last_name, email, is_staff, is_active, "
        "date_joined"
    )
    with closing(sqlite3.connect(tmp_path / "console" / "console.sqlite3")) as database:
        for name, is_superuser in (("admin", 1), ("somebody", 0)):
            database.execute(
                f"INSERT INTO accounts_user ({columns}) VALUES (?, ?, ?, '', '', '', 0, 1, ?)",
                ("!", is_superuser, name, "2026-01-01 00:00:00"),
            )
        database.commit()
        manage(tmp_path, "prepare")
        roles = dict(database.execute("SELECT username, role FROM accounts_user"))
    assert roles == {"admin": "operator", "somebody": "viewer"}
