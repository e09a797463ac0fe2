"""argparse parsers made from the tables: help with examples, and errors that name the nearest
word.

Values are read here as far as they need no cluster; what is wrong with them is said in one line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from broker.commands import text
from broker.commands.table import EXIT_CODES, Area, Argument, Command, common_arguments
from broker.commands.values import READERS

WIDTH: Final = 96


class UsageError(Exception):
    """Wrong usage: what was wrong and what to do, in a line or two."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError in place of leaving the process."""

    def error(self, message: str) -> NoReturn:
        known = [flag for action in self._actions for flag in action.option_strings]
        if message.startswith("unrecognized arguments: "):
            words = message.removeprefix("unrecognized arguments: ").split() or [""]
            word = words[0].partition("=")[0]
            near = text.nearest(word, known) if word.startswith("-") else ""
            kind = "option" if word.startswith("-") else "further argument"
            message = f"there is no {kind} {word!r} here.{near}"
        elif message.startswith("the following arguments are required: "):
            missing = message.removeprefix("the following arguments are required: ")
            message = f"{missing} {'are' if ', ' in missing else 'is'} missing"
        raise UsageError(f"{self.prog}: {message}\nusage: {_usage(self)}\nTry {self.prog} --help")


def command_for(area: Area, words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """(the command that `words` begin with, its arguments). Raises UsageError for another word."""
    if area.is_command:
        return area.commands[0], words
    known = {command.words[1]: command for command in area.commands}
    if not words or words[0].startswith("-"):
        raise UsageError(f"hermes {area.name}: which one? {', '.join(known)}\n{_try(area)}")
    command = known.get(words[0])
    if command is None:
        near = text.nearest(words[0], list(known)) or f" There are {', '.join(known)}."
        raise UsageError(
            f"hermes {area.name}: there is no command {words[0]!r}.{near}\n{_try(area)}"
        )
    return command, words[1:]


def area_help(area: Area) -> str:
    """What `hermes topics --help` prints."""
    width = max(len(command.words[1]) for command in area.commands)
    lines = [f"usage: hermes {area.name} <command> [arguments]", "", area.summary + ".", ""]
    lines += [f"  {command.words[1]:<{width}}  {command.summary}" for command in area.commands]
    lines += ["", f"`hermes {area.name} <command> --help` describes one, with examples."]
    return "\n".join(lines)


def parser_of(command: Command) -> Parser:
    """A parser with the command's own and the common arguments."""
    parser = Parser(
        prog=f"hermes {command.name}",
        description=command.summary[0].upper() + command.summary[1:] + ".",
        epilog=_epilog(command),
        formatter_class=_formatter,
        allow_abbrev=False,
    )
    _add_own(parser, command)
    common = parser.add_argument_group("everywhere")
    for argument in common_arguments(command):
        _add(common, argument)
    return parser


def parse(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """The options and arguments that `words` give, in whatever order they come.

    Raises UsageError, and SystemExit after --help.
    """
    return parser_of(command).parse_intermixed_args(list(words))


def usage_of(command: Command) -> str:
    """One line: the command with its arguments, the common ones left out."""
    parser = Parser(prog=f"hermes {command.name}", allow_abbrev=False, add_help=False)
    _add_own(parser, command)
    return _usage(parser)


def _add_own(parser: Parser, command: Command) -> None:
    groups: dict[str, Any] = {}
    for argument in command.arguments:
        target: Any = parser
        if argument.group:
            if argument.group not in groups:
                groups[argument.group] = parser.add_mutually_exclusive_group(
                    required=not argument.group.startswith("optional")
                )
            target = groups[argument.group]
        _add(target, argument)


def _add(target: Any, argument: Argument) -> None:
    options = dict(argument.options)
    reader = options.get("type")
    if isinstance(reader, str):
        options["type"] = _typed(READERS[reader])
    target.add_argument(*argument.flags, help=argument.help.replace("%", "%%"), **options)


def _typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(word: str) -> Any:
        try:
            return read(word)
        except text.BadText as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=32, width=WIDTH)


def _epilog(command: Command) -> str:
    lines = [command.notes, ""] if command.notes else []
    if command.examples:
        lines += ["examples:"]
        for example in command.examples:
            lines += [f"  # {example.meaning}", f"  {example.line}"]
        lines += [""]
    codes = ", ".join(f"{code} {meaning.partition(':')[0]}" for code, meaning in EXIT_CODES.items())
    lines += [f"exit codes: {codes}"]
    return "\n".join(lines)


def _usage(parser: Parser) -> str:
    words = parser.format_usage().removeprefix("usage: ").split()
    return " ".join(words)


def _try(area: Area) -> str:
    return f"Try hermes {area.name} --help"
