"""What a command is: its words, arguments and examples, as data that parsing, completion and the
reference page share.

Not here: the commands (tree), what they do. `run` is named by module and function, so that only the
module of the command that runs is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple


class Names(StrEnum):
    """What an argument names; the shell completes it from the cluster."""

    NOTHING = ""
    TOPIC = "topic"
    GROUP = "group"
    BROKER = "broker"
    FILE = "file"
    CONFIG_OWNER = "config-owner"


class Argument(NamedTuple):
    """An option (`flags` begin with `-`) or a positional argument (one name). `options` go to
    argparse's add_argument; `group` puts options into one set of which exactly one is given (at
    most one where its name begins with "optional").
    """

    flags: tuple[str, ...]
    help: str
    options: Mapping[str, Any] = {}
    names: Names = Names.NOTHING
    group: str = ""

    @property
    def is_positional(self) -> bool:
        return not self.flags[0].startswith("-")

    @property
    def takes_value(self) -> bool:
        return self.options.get("action") not in ("store_true", "store_false")


class Example(NamedTuple):
    """A command line and what it is good for."""

    line: str
    meaning: str


class Command(NamedTuple):
    """`words` follow `hermes`. `run` is "module:function" in this package: async, gets a Context,
    returns the exit code. With `streams`, --json prints one object a line and no document; with
    `is_offline` no cluster is asked.
    """

    words: tuple[str, ...]
    summary: str
    run: str
    arguments: tuple[Argument, ...] = ()
    examples: tuple[Example, ...] = ()
    notes: str = ""
    streams: bool = False
    is_offline: bool = False

    @property
    def name(self) -> str:
        return " ".join(self.words)


class Area(NamedTuple):
    """A first word. An area whose only command has no further word is a command itself."""

    name: str
    summary: str
    commands: tuple[Command, ...]

    @property
    def is_command(self) -> bool:
        return self.commands[0].words == (self.name,)


EXIT_CODES: Final = {
    0: "done",
    1: "refused or failed: the broker refused something, or it was not confirmed; stderr says what",
    2: "wrong usage: nothing was asked of the cluster",
    3: "unreachable: no broker answers there, or none in time",
    130: "interrupted (Ctrl-C)",
    141: "the reader of the output went away (`| head`)",
}

COMMON: Final = (
    Argument(
        ("--bootstrap",),
        "brokers to begin with (default: $HERMES_BOOTSTRAP, else 127.0.0.1:9092)",
        {"metavar": "HOST:PORT[,…]"},
    ),
    Argument(
        ("--timeout",),
        "how long a request and its repeats may take (default: 30)",
        {"metavar": "SECONDS", "type": "seconds", "default": 30.0},
    ),
    Argument(("--json",), "print JSON in place of text", {"action": "store_true"}),
)
"""Arguments of every command on a cluster."""


def common_arguments(command: Command) -> tuple[Argument, ...]:
    """Of `command`: what says how to reach a cluster is not for one that asks none."""
    return COMMON[-1:] if command.is_offline else COMMON
