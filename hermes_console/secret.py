"""The installation's secret key: made once, kept in the data directory, readable by its owner
alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

KEY_BYTES = 48


def load_or_create_secret(path: Path) -> str:
    """The key in `path`; a new one when the file does not exist. Two processes starting at once get
    the same key.

    The file is written aside with mode 0600 and linked into place, so nobody ever reads half a key.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(KEY_BYTES))
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        finally:
            aside.unlink()
    key = path.read_text().strip()
    if len(key) < KEY_BYTES:
        raise RuntimeError(
            f"{path} holds no key ({len(key)} characters): remove it, the next start makes one"
        )
    return key
