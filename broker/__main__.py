"""`python -m broker`: the `hermes` command."""

from __future__ import annotations

import signal
import sys

from broker.runtime.loading import begin_loading


def run() -> int:
    """The exit code. While modules load, Ctrl-C ends the process as it ends any other program: no
    traceback. Where it is ignored (`nohup`, a background job) it stays so.
    """
    begin_loading()
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from broker.cli import main

    signal.signal(signal.SIGINT, on_interrupt)
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
