"""The reference page of the commands, made from their table (docs/reference/cli.md). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from broker.commands.parsing import usage_of
from broker.commands.table import COMMON, EXIT_CODES, Argument, Command
from broker.commands.terminal import JSON_SHAPE
from broker.commands.text import TIME_FORMS
from broker.commands.tree import AREAS


def page(notice: str) -> str:
    """The whole page; `notice` says who made it."""
    lines = [
        *("# Commands on a cluster", "", notice, ""),
        "What `hermes` can do with a cluster, ours or Apache Kafka. How to use it well is in",
        "[the guide](../cli.md); `hermes COMMAND --help` shows the same as this page.",
        "`hermes plan` asks no cluster: of the arguments everywhere it takes `--json` alone.",
        "",
        *("## Everywhere", ""),
        *_arguments(COMMON),
        "",
        f"With `--json`: {JSON_SHAPE} `consume` prints one object a line.",
        "",
        f"A TIME is {TIME_FORMS}.",
        "",
        *("## Exit codes", "", "| code | meaning |", "| --- | --- |"),
        *(f"| {code} | {_cell(meaning)} |" for code, meaning in EXIT_CODES.items()),
    ]
    for area in AREAS:
        lines += ["", f"## hermes {area.name}", "", _sentence(area.summary)]
        for command in area.commands:
            lines += _command(command, has_heading=not area.is_command)
    return "\n".join(lines) + "\n"


def _command(command: Command, *, has_heading: bool) -> list[str]:
    lines = [""]
    if has_heading:
        lines += [f"### hermes {command.name}", "", _sentence(command.summary), ""]
    lines += ["```text", usage_of(command), "```"]
    if command.arguments:
        lines += ["", *_arguments(command.arguments)]
    if command.notes:
        lines += ["", command.notes]
    if command.examples:
        lines += ["", "```sh"]
        lines += [f"{each.line}  # {each.meaning}" for each in command.examples]
        lines += ["```"]
    return lines


def _arguments(arguments: Iterable[Argument]) -> list[str]:
    rows = ["| argument | meaning |", "| --- | --- |"]
    for argument in arguments:
        value = str(argument.options.get("metavar") or "")
        choices = argument.options.get("choices")
        if choices:
            value = "\\|".join(str(each) for each in choices)
        if argument.is_positional:
            shown = f"`{value or argument.flags[0].upper()}`"
        else:
            names = ", ".join(f"`{flag}`" for flag in argument.flags)
            shown = f"{names} `{value}`" if value else names
        rows.append(f"| {shown} | {_cell(argument.help)} |")
    return rows


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
