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
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
BOOTSTRAP_VARIABLE: Final = "HERMES_BOOTSTRAP"
BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"


def main(area_name: str, arguments: Sequence[str]) -> int:
    """The exit code of `hermes AREA ARGUMENTS…`."""
    area = next(area for area in AREAS if area.name == area_name)
    try:
        if arguments and arguments[0] in ("-h", "--help", "help") and not area.is_command:
            sys.stdout.write(area_help(area) + "\n")
            return DONE
        command, rest = command_for(area, arguments)
        options = parse(command, rest)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_USAGE
    except SystemExit as leaving:  # --help
        return int(leaving.code or 0)
    if not options.bootstrap:
        options.bootstrap = os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT

    from broker.commands.running import run

    try:
        return asyncio.run(run(command, options))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more. What Python would flush at its end must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
