"""Celery's queue as files, for the embedded console: kombu's file transport with writes that appear
at once.

The original makes a file and then writes it: a reader in between sees an empty one, and the worker
ends for good. Here a file gets its name when it is whole, and one that cannot be read is left out.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from pathlib import Path
from queue import Empty
from time import monotonic, time, time_ns
from typing import Any, Final

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

SCHEME: Final = "hermes-files"
SUFFIX: Final = ".msg"
TAKEN: Final = ".taken"
DRAFT: Final = ".draft"
TIDIED_EVERY_S: Final = 60.0
LEFT_AFTER_S: Final = 60.0
"""Writing and taking a file are a matter of milliseconds."""

log = logging.getLogger(__name__)

_binding: Final = threading.Lock()


class Channel(filesystem.Channel):
    """Kombu's channel protocol. Names sort by the time of their writing."""

    _tidied_at_s = float("-inf")

    def _put(self, queue: str, payload: Any, **_options: Any) -> None:  # type: ignore[override]
        name = f"{time_ns():020d}_{uuid.uuid4()}.{queue}{SUFFIX}"
        write_whole(Path(self.data_folder_out) / name, dumps(payload))

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """The oldest message of the queue. Raises Empty."""
        folder = Path(self.data_folder_in)
        if monotonic() - self._tidied_at_s >= TIDIED_EVERY_S:
            self._tidied_at_s = monotonic()
            tidy(folder, time())
        wanted = f"{queue}{SUFFIX}"
        for name in sorted(os.listdir(folder)):  # noqa: PTH208  only names are needed
            if name.partition(".")[2] != wanted:
                continue
            taken = folder / f"{name}{TAKEN}"
            try:
                (folder / name).rename(taken)
            except OSError:
                continue  # another reader was faster
            raw = taken.read_bytes()
            taken.unlink()
            try:
                return loads(raw.decode())
            except (ValueError, RecursionError):
                log.exception("a task's file could not be read and is left out: %s", name)
        raise Empty

    def queue_bind(self, *arguments: Any, **options: Any) -> None:
        """Kombu notes a binding before it is written, and whoever finds it noted sends at once: to
        nobody, while another thread still writes it.
        """
        with _binding:
            super().queue_bind(*arguments, **options)

    def _queue_bind(
        self, exchange: str, routing_key: str | None, pattern: str | None, queue: str
    ) -> None:
        """Every process binds the same: whoever writes last writes what was there."""
        file = Path(self.control_folder) / f"{exchange}.exchange"  # as get_table reads it
        file.parent.mkdir(exist_ok=True, parents=True)
        row = [routing_key or "", pattern or "", queue or ""]
        rows = [list(one) for one in self.get_table(exchange)]
        if row not in rows:
            write_whole(file, dumps([row, *rows]))


class Transport(filesystem.Transport):
    """Known to kombu by SCHEME."""

    Channel = Channel


def register() -> None:
    """Before the first connection."""
    TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"


def tidy(folder: Path, now_s: float) -> None:
    """What a process left that died at its work: a message that it had taken is there again, as
    tasks may be done twice but not be lost; a draft goes.
    """
    for file in folder.iterdir():
        if file.suffix not in {TAKEN, DRAFT}:
            continue
        try:
            if now_s - file.stat().st_ctime < LEFT_AFTER_S:
                continue
            if file.suffix == DRAFT:
                file.unlink()
            else:
                file.rename(file.with_suffix(""))
        except FileNotFoundError:
            continue  # its process lives, or another one tidies
        log.warning("a task's file was left by a process that died: %s", file.name)


def write_whole(file: Path, text: str) -> None:
    """The file appears with all of its text or not at all."""
    draft = file.with_name(f"{file.name}.{uuid.uuid4()}{DRAFT}")
    draft.write_text(text)
    draft.replace(file)
