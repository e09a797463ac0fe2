"""Shell completion: the scripts for bash, zsh and fish, and the words they ask for.

`hermes __complete WORD… CURRENT` prints one candidate a line (word, tab, what it is). Names of
topics, groups and brokers come from the cluster, within NAMES_TIMEOUT_MS; a cluster that does not
answer offers none, and never an error in the middle of somebody's command line. Names that a shell
would not take as one plain word are left out: anybody may call a group $(reboot).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from broker.commands.table import Area, Argument, Command, Names, common_arguments
from broker.commands.tree import AREAS

NAMES_TIMEOUT_MS: Final = 1_500
CANDIDATES_MAX: Final = 1_000
SHELLS: Final = ("bash", "zsh", "fish")

_SCRIPTS: Final = {
    "bash": r"""# hermes completion bash > ~/.local/share/bash-completion/completions/hermes
_hermes() {
    local IFS=$'\n' words cword line
    if declare -F _comp_get_words >/dev/null; then
        _comp_get_words -n := words cword 2>/dev/null
    elif declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n := words cword 2>/dev/null
    else
        words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD
    fi
    COMPREPLY=()
    while read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("${words[0]}" __complete "${words[@]:1:cword}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default 2>/dev/null
    return 0
}
complete -F _hermes hermes
""",
    "zsh": r"""#compdef hermes
# hermes completion zsh > "${fpath[1]}/_hermes"
_hermes() {
    local -a found
    local line
    while IFS= read -r line; do
        line=${line//:/\\:}
        found+=("${line/$'\t'/:}")
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe -t hermes hermes found
    else
        _files
    fi
}
if [ "$funcstack[1]" = _hermes ]; then
    _hermes
else
    compdef _hermes hermes
fi
""",
    "fish": r"""# hermes completion fish > ~/.config/fish/completions/hermes.fish
function __hermes_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete $words[2..-1] "$current" 2>/dev/null
end
complete -c hermes -f -a '(__hermes_complete)'
""",
}


class Candidate(NamedTuple):
    """A word that could come next. `meaning` may be empty."""

    word: str
    meaning: str = ""


def script(shell: str) -> str:
    """The text that a shell loads. `shell` is one of SHELLS."""
    return _SCRIPTS[shell]


def print_candidates(words: Sequence[str], others: Iterable[tuple[str, str]]) -> int:
    """`hermes __complete`: always 0. `others` are the commands that are not in the table."""
    for word, meaning in candidates(words, others)[:CANDIDATES_MAX]:
        sys.stdout.write(f"{word}\t{meaning}\n" if meaning else f"{word}\n")
    return 0


def candidates(words: Sequence[str], others: Iterable[tuple[str, str]]) -> list[Candidate]:
    """What could stand in place of the last of `words`, which may be empty or half written."""
    *before, current = words or [""]
    if not before:
        first = [Candidate(area.name, area.summary) for area in AREAS]
        first += [Candidate(name, summary) for name, summary in others]
        return _beginning(first, current)
    area = next((area for area in AREAS if area.name == before[0]), None)
    if area is None:
        shells = [Candidate(shell) for shell in SHELLS]
        return _beginning(shells, current) if before == ["completion"] else []
    if not area.is_command and len(before) == 1:
        second = [Candidate(each.words[1], each.summary) for each in area.commands]
        return _beginning(second, current)
    command, given = _command(area, before)
    return [] if command is None else _arguments(command, given, current)


def _command(area: Area, before: Sequence[str]) -> tuple[Command | None, Sequence[str]]:
    if area.is_command:
        return area.commands[0], before[1:]
    found = next((each for each in area.commands if each.words[1] == before[1]), None)
    return found, before[2:]


def _arguments(command: Command, given: Sequence[str], current: str) -> list[Candidate]:
    arguments = (*command.arguments, *common_arguments(command))
    flags = {flag: each for each in arguments if not each.is_positional for flag in each.flags}
    waiting = flags.get(given[-1]) if given else None
    if waiting is not None and waiting.takes_value:
        return _values(waiting, current, given)
    flag, equals, value = current.partition("=")
    if equals and flag in flags:
        found = _values(flags[flag], value, given)
        return [Candidate(f"{flag}={word}", meaning) for word, meaning in found]
    if current.startswith("-"):
        offered = [
            Candidate(each.flags[-1], each.help)
            for each in arguments
            if not each.is_positional and not set(each.flags) & set(given)
        ]
        return _beginning(offered, current)
    positional = _positional(command, given, flags)
    return [] if positional is None else _values(positional, current, given)


def _positional(
    command: Command, given: Sequence[str], flags: dict[str, Argument]
) -> Argument | None:
    """The positional argument that comes next, None when all are there."""
    count, position = 0, 0
    while position < len(given):
        argument = flags.get(given[position])
        if argument is None:
            count += not given[position].startswith("-")
        elif argument.takes_value:
            position += 1
        position += 1
    places = [each for each in command.arguments if each.is_positional]
    if not places:
        return None
    if count < len(places):
        return places[count]
    return places[-1] if places[-1].options.get("nargs") in ("+", "*") else None


def _values(argument: Argument, current: str, given: Sequence[str]) -> list[Candidate]:
    choices = argument.options.get("choices")
    if choices:
        return _beginning([Candidate(str(each)) for each in choices], current)
    if argument.names is Names.NOTHING or argument.names is Names.FILE:
        return []
    kind = argument.names.value
    if argument.names is Names.CONFIG_OWNER:
        kind = next((word for word in given if word in ("topic", "group", "broker")), "")
    names = [name for name in _names(kind, given) if shlex.quote(name) == name]
    return _beginning([Candidate(name) for name in names], current)


def _names(kind: str, given: Sequence[str]) -> list[str]:
    """The cluster's topics, groups or brokers; none when it does not answer soon."""
    if not kind:
        return []
    from broker.client.blocking import BlockingClient, ClientError

    bootstrap = os.environ.get("HERMES_BOOTSTRAP") or "127.0.0.1:9092"
    for index, word in enumerate(given):
        if word == "--bootstrap" and index + 1 < len(given):
            bootstrap = given[index + 1]
        elif word.startswith("--bootstrap="):
            bootstrap = word.partition("=")[2]
    try:
        with BlockingClient(bootstrap, timeout_ms=NAMES_TIMEOUT_MS) as client:
            if kind == "group":
                return [row.group_id for row in client.list_groups()]
            if kind == "broker":
                return [str(node.node_id) for node in client.describe_cluster().nodes]
            return [row.name for row in client.list_topics()]
    except ClientError:
        return []


def _beginning(offered: Iterable[Candidate], current: str) -> list[Candidate]:
    return [each for each in offered if each.word.startswith(current) and each.word.isprintable()]
