"""The console's process: Daphne built by hand, the sampler and (embedded) Celery beside it, and its
end.

Daphne sends no lifespan events, so the parts start when the reactor runs. On SIGTERM, SIGINT or the
end of the supervisor's pipe: no new connections, open requests get DRAIN_S_MAX, the parts flush,
then `os._exit(0)`: executor threads that wait on the loop would otherwise hold the process for
ever.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, Final

from daphne.server import Server
from django.db import connections
from django.urls import reverse
from twisted.internet import reactor as twisted_reactor

from hermes_console.accounts.links import create_local_link, first_administrator
from hermes_console.asgi import application
from hermes_console.connect import note_own_port
from hermes_console.embedded import EmbeddedCelery
from hermes_console.live.sampling import Sampling
from hermes_console.settings import ENVIRONMENT

DRAIN_S_MAX: Final = 2.0
STOP_S_MAX: Final = 8.0
WEBSOCKET_FRAME_BYTES_MAX: Final = 16_384
"""Of what a browser sends in one frame: refused by its header, before it is read."""
WEBSOCKET_MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of what the console sends, too: a page of groups with long names."""
HTTP_TIMEOUT_S: Final = 120
HANDSHAKE_S_MAX: Final = 30
"""Of a websocket: after a restart all browsers come at once."""

GC_THRESHOLDS: Final = (25_000, 20, 50)
"""A look at a cluster makes some hundred thousand objects, hardly any of them in cycles: with
Python's own thresholds (700, 10, 10) two fifths of a look's CPU time went into searching for them.
"""

log = logging.getLogger(__name__)
reactor: Any = twisted_reactor


class AddressTaken(Exception):
    """Somebody else listens on the address."""


class ConsoleServer:
    """One process. `run()` never returns: the process ends with status 0, or 1 when a part failed
    to start.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        is_supervised: bool,
        prints_link: bool,
        link_file: Path | None,
        runs_tasks: bool,
    ) -> None:
        self._host = host
        self._port = port or _free_port(host)
        _check_address(host, self._port)
        note_own_port(self._port)
        self._is_supervised = is_supervised
        self._prints_link = prints_link
        self._link_file = link_file
        self._sampling = Sampling(ENVIRONMENT)
        self._celery = EmbeddedCelery() if runs_tasks or ENVIRONMENT.is_embedded else None
        self._is_stopping = False
        self._server = Server(
            application=application,
            endpoints=[f"tcp:port={self._port}:interface={host.replace(':', chr(92) + ':')}"],
            signal_handlers=False,
            http_timeout=HTTP_TIMEOUT_S,
            websocket_handshake_timeout=HANDSHAKE_S_MAX,
            websocket_max_message_size=WEBSOCKET_MESSAGE_BYTES_MAX,
            websocket_max_frame_size=WEBSOCKET_FRAME_BYTES_MAX,
            server_name="hermesmq",
            verbosity=0,
        )

    def run(self) -> None:
        # Whitenoise streams files with a synchronous iterator; Django reads it in a thread and says
        # so each time.
        warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous")
        reactor.callWhenRunning(self._start)
        gc.collect()
        gc.freeze()  # modules and tables stay for ever: no collection looks at them again
        gc.set_threshold(*GC_THRESHOLDS)
        self._server.run()
        os._exit(1)  # the reactor ended by itself: a listener failed after the check

    def _start(self) -> None:
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        if self._is_supervised:
            self._thread(self._await_end_of_pipe, loop)
        self._thread(self._start_parts, loop)

    def _start_parts(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: the database is slow for a loop."""
        try:
            link = self._link() if self._prints_link else None
            if self._link_file is not None:
                write_private(self._link_file, self._link())
            self._sampling.start(loop)
            if self._celery is not None:
                self._celery.start()
        except Exception:
            log.exception("the console could not start")
            os._exit(1)
        if link:
            print(f"signin={link}", flush=True)  # noqa: T201  the supervisor reads it
        print(f"ready console={self._host}:{self._port}", flush=True)  # noqa: T201

    def _link(self) -> str:
        path = reverse("accounts:link", args=[create_local_link(first_administrator())])
        connections.close_all()
        return f"http://{self._host}:{self._port}{path}"

    def _await_end_of_pipe(self, loop: asyncio.AbstractEventLoop) -> None:
        while sys.stdin.buffer.read(1024):
            pass
        loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        watchdog = threading.Timer(STOP_S_MAX, os._exit, args=(0,))
        watchdog.daemon = True
        watchdog.start()
        for listener in self._server.listeners:
            listener.addCallback(lambda port: port.stopListening())
        reactor.callLater(DRAIN_S_MAX if self._open_requests() else 0, self._end)
        reactor.callLater(0.1, self._end_when_drained)

    def _end_when_drained(self) -> None:
        if self._open_requests():
            reactor.callLater(0.05, self._end_when_drained)
        else:
            self._end()

    def _open_requests(self) -> int:
        """HTTP requests in work; websockets are told nothing and connect again."""
        return sum(
            1
            for protocol, details in self._server.connections.items()
            if not hasattr(protocol, "handshake_deferred")
            and not details.get("disconnected")
            and not getattr(details.get("application_instance"), "done", lambda: True)()
        )

    def _end(self) -> None:
        self._thread(self._flush_and_exit)

    def _flush_and_exit(self) -> None:
        self._sampling.stop()
        if self._celery is not None:
            self._celery.stop()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    @staticmethod
    def _thread(target: Any, *args: Any) -> None:
        threading.Thread(
            target=target, args=args, name=target.__name__.strip("_"), daemon=True
        ).start()


def write_private(path: Path, text: str) -> None:
    """A new file that its owner alone can read, complete from the moment it is there."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    aside.replace(path)


def _free_port(host: str) -> int:
    with socket.socket(_family(host)) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _check_address(host: str, port: int) -> None:
    """Raises AddressTaken with what to do: Daphne itself would log a traceback."""
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise AddressTaken(
                f"Cannot listen on {host}:{port} ({error.strerror}). "
                "Stop what listens there or choose another --port."
            ) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
