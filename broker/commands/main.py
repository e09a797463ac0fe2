"""Parses one command and has it run; every end has its exit code (table.EXIT_CODES).

The client is loaded after parsing: help and a wrong option are told without it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Final

from broker.commands.parsing import UsageError, area_help, command_for, parse
from broker.commands.tree import AREAS

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
BOOTSTRAP_VARIABLE: Final = "HERMES_BOOTSTRAP"
BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"


def main(area_name: str, arguments: Sequence[str]) -> int:
    """The exit code of `hermes AREA ARGUMENTS…`."""
    open_closed_streams()
    try:
        code = _main(area_name, arguments)
        return code if _is_written("") else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE


def _main(area_name: str, arguments: Sequence[str]) -> int:
    area = next(area for area in AREAS if area.name == area_name)
    try:
        if arguments and arguments[0] in ("-h", "--help", "help") and not area.is_command:
            return DONE if _is_written(area_help(area) + "\n") else FAILED
        command, rest = command_for(area, arguments)
        options = parse(command, rest)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_USAGE
    except SystemExit as leaving:  # --help
        return int(leaving.code or 0)
    if command.is_offline:
        options.bootstrap, options.timeout = BOOTSTRAP_DEFAULT, 1.0
    if not options.bootstrap:
        options.bootstrap = os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT

    from broker.commands.running import run
    from broker.commands.terminal import OutputFault

    try:
        return asyncio.run(run(command, options))
    except OutputFault as fault:
        sys.stderr.write(f"hermes: {fault}\n")
        _discard_output()
        return FAILED


def _is_written(words: str) -> bool:
    """False, and said, when `words` and what is left to write cannot be written."""
    try:
        sys.stdout.write(words)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stderr.write(f"hermes: the output cannot be written: {error.strerror}\n")
        _discard_output()
        return False
    return True


def open_closed_streams() -> None:
    """Standard streams that the shell closed (`<&-`) are opened, or sockets would get their
    numbers. There is no input, and output cannot be written.
    """
    for number, name, mode, flags in (
        (0, "stdin", "r", os.O_RDONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, flags), number)
            setattr(sys, name, open(number, mode, closefd=False, encoding="utf-8"))  # noqa: SIM115 - for the process's life


def _discard_output() -> None:
    """What Python would flush at its end must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
