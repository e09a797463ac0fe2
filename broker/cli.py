"""The `hermes` command: one table of subcommands, each imported when it is run.

Lazy on purpose: `hermes serve` loads neither Django nor librdkafka, nor what parses the other
commands, and a missing tool of the developers' never stops a broker. A new command is a function
and a row in COMMANDS.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import argparse


class Command(NamedTuple):
    """`run` gets the arguments after the command's name and returns the exit code."""

    name: str
    summary: str
    run: Callable[[Sequence[str]], int]


class ShortFlag(NamedTuple):
    """A flag of `hermes serve` that stands for the setting `flag`, as `value.format(argument)`."""

    flag: str
    value: str
    meaning: str


SHORT_FLAGS: Final = {
    "--data": ShortFlag("--log-dir", "{}", "the data directory (log.dir)"),
    "--kafka-port": ShortFlag(
        "--listeners", "PLAINTEXT://127.0.0.1:{}", "listen there on 127.0.0.1 (listeners)"
    ),
    "--metrics-port": ShortFlag(
        "--hermes-metrics-port", "{}", "/metrics, /healthz and /readyz (hermes.metrics.port)"
    ),
}


UNUSED_BY_LOGS: Final = ("rich", "twisted", "greenlet")
"""What structlog loads where it is installed."""


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 when nobody reads what
    it prints to the terminal.
    """
    if sys.flags.optimize:
        print("hermes: refuses to run under python -O: its asserts are checks", file=sys.stderr)
        return 2
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        _parser().print_help()
        return 0 if arguments else 2
    if arguments[0] == "--version":
        return _version([])
    if arguments[0] == "__complete":  # what the shells' scripts call, for nobody to read
        return _candidates(arguments[1:])
    name, *rest = arguments
    command = next((command for command in COMMANDS if command.name == name), None)
    if command is None:
        print(_unknown(name), file=sys.stderr)
        return 2
    try:
        try:
            return command.run(rest)
        finally:
            if sys.stdout is not None:  # a shell may have closed it
                sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        if _is_output_read():
            raise  # another pipe, or a socket
        return _discard_output()


def _is_output_read() -> bool:
    """Whether somebody may still read what is printed."""
    import select

    if sys.stdout is None:
        return True
    poll = select.poll()
    poll.register(sys.stdout.fileno(), select.POLLERR)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


def _discard_output() -> int:
    """What Python would flush at its end must not fail again; the exit code of a broken pipe."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _unknown(name: str) -> str:
    import difflib

    names = [command.name for command in COMMANDS]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean `hermes {near[0]}`?" if near else f"Commands: {', '.join(names)}."
    return f"hermes: there is no command {name!r}. {hint} `hermes --help` describes them."


def _parser() -> argparse.ArgumentParser:
    import argparse

    width = max(len(command.name) for command in COMMANDS)
    listing = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    return argparse.ArgumentParser(
        prog="hermes",
        usage="hermes <command> [arguments]",
        description="A message queue for order-critical event streams, and its console.",
        epilog=f"commands:\n{listing}\n\n`hermes <command> --help` describes one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _up(arguments: Sequence[str]) -> int:
    from broker.up.command import main as up

    return up(arguments)


def _serve(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(_serve_help())
        return 0
    _leave_out(*UNUSED_BY_LOGS, "ssl")  # a broker speaks no TLS yet: asyncio would load it
    from broker.server.serve import main as serve

    return serve(with_setting_flags(arguments))


def _leave_out(*names: str) -> None:
    """What structlog and asyncio load where it is installed, though nothing here asks them to: a
    fifth of a broker's start, half of that of `hermes topics`.
    """
    for name in names:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def with_setting_flags(arguments: Sequence[str]) -> list[str]:
    """`hermes serve`'s short flags replaced by the settings that they stand for."""
    words: list[str] = []
    pending = list(reversed(arguments))
    while pending:
        flag, equals, value = (word := pending.pop()).partition("=")
        short = SHORT_FLAGS.get(flag)
        if short is None or not (equals or pending):
            words.append(word)
        else:
            words += [short.flag, short.value.format(value if equals else pending.pop())]
    return words


def _serve_help() -> str:
    from broker.config.broker import BrokerSettings
    from broker.config.setting import settings_of
    from broker.config.sources import BROKER_PREFIX, flag_name

    rows = settings_of(BrokerSettings).values()
    short = [f"  {flag:<16} {short.meaning}" for flag, short in SHORT_FLAGS.items()]
    settings = [f"  {flag_name(row.name)}\n      {row.documentation}" for row in rows]
    return "\n".join(
        [
            "usage: hermes serve [--config FILE] [--data DIR] [--kafka-port N] [--SETTING VALUE]…",
            "",
            "Run one broker. Settings come from FILE (YAML, one flat line each), from variables",
            f"({BROKER_PREFIX}LOG_SEGMENT_BYTES is log.segment.bytes) and from flags, which win.",
            "",
            *short,
            "  --supervised     stop when standard input closes",
            "",
            "settings:",
            *settings,
        ]
    )


def _gateway(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(_gateway_help())
        return 0
    _leave_out(*UNUSED_BY_LOGS)
    from broker.gateway.serve import main as gateway

    return gateway(arguments)


def _gateway_help() -> str:
    from broker.config.gateway import GatewaySettings
    from broker.config.setting import settings_of
    from broker.config.sources import GATEWAY_PREFIX, flag_name

    rows = settings_of(GatewaySettings).values()
    settings = [f"  {flag_name(row.name)}\n      {row.documentation}" for row in rows]
    return "\n".join(
        [
            "usage: hermes gateway [--config FILE] [--bootstrap-servers HOST:PORT] [--port N]"
            " [--SETTING VALUE]…",
            "",
            "Put, fetch and commit over HTTP, in front of HermesMQ or Apache Kafka. Settings come",
            f"from FILE (YAML, one flat line each), from variables ({GATEWAY_PREFIX}PORT is port)",
            "and from flags, which win.",
            "",
            "  --supervised     stop when standard input closes",
            "",
            "settings:",
            *settings,
        ]
    )


def _demo(arguments: Sequence[str]) -> int:
    from broker.demo.command import main as demo

    return demo(arguments)


def _test(arguments: Sequence[str]) -> int:
    from broker.verify.stages import main as test

    return test(arguments)


def _check(arguments: Sequence[str]) -> int:
    from broker.verify.check import main as check

    return check(arguments)


def _docs(arguments: Sequence[str]) -> int:
    from broker.verify.reference import main as docs

    return docs(arguments)


def _simulate(arguments: Sequence[str]) -> int:
    from broker.simulator.cli import main as simulate

    return simulate(arguments)


def _bench(arguments: Sequence[str]) -> int:
    from broker.bench.command import main as bench

    return bench(arguments)


def _on_cluster(area: str) -> Callable[[Sequence[str]], int]:
    def run(arguments: Sequence[str]) -> int:
        _leave_out(*UNUSED_BY_LOGS)
        from broker.commands.main import main as command

        return command(area, arguments)

    return run


def _completion(arguments: Sequence[str]) -> int:
    import argparse

    from broker.commands.completion import SHELLS, script

    parser = argparse.ArgumentParser(
        prog="hermes completion",
        description="Print what a shell loads to complete commands, options, topics and groups.",
        epilog="bash: source <(hermes completion bash); the first line says where to keep it.",
    )
    parser.add_argument("shell", choices=SHELLS)
    print(script(parser.parse_args(arguments).shell), end="")
    return 0


def _candidates(words: Sequence[str]) -> int:
    from broker.commands.completion import print_candidates
    from broker.commands.tree import AREAS

    known = {area.name for area in AREAS}
    others = [(row.name, row.summary) for row in COMMANDS if row.name not in known]
    return print_candidates(words, others)


def _version(arguments: Sequence[str]) -> int:
    import argparse

    argparse.ArgumentParser(
        prog="hermes version", description="Print the version of HermesMQ and of Python."
    ).parse_args(arguments)
    print(f"HermesMQ {version()} (Python {sys.version.split()[0]})")
    return 0


def version() -> str:
    """The version in the installed metadata, else the one in the project file, else `unknown`."""
    from broker.runtime.installation import installed_version

    if installed := installed_version():
        return installed
    import tomllib
    from pathlib import Path

    project = Path(__file__).parent.parent / "pyproject.toml"
    if not project.is_file():
        return "unknown"
    return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


COMMANDS: Final = (
    Command("up", "broker, console and (with --demo) a workload, on this machine", _up),
    Command("serve", "one broker", _serve),
    Command("gateway", "put, fetch and commit messages over HTTP", _gateway),
    Command("demo", "produce and consume order events on a cluster that runs", _demo),
    Command("topics", "list, describe, create, change and delete topics", _on_cluster("topics")),
    Command(
        "groups", "list, describe, create, reset and delete consumer groups", _on_cluster("groups")
    ),
    Command("produce", "send records to a topic", _on_cluster("produce")),
    Command("consume", "print a topic's records", _on_cluster("consume")),
    Command("cluster", "the cluster, its brokers, disks and protocol", _on_cluster("cluster")),
    Command("config", "settings of topics, brokers and groups", _on_cluster("config")),
    Command("plan", "capacity sums: waiting, workers, partitions, disks", _on_cluster("plan")),
    Command("completion", "completion for bash, zsh or fish", _completion),
    Command("test", "every test; installs or names missing system packages", _test),
    Command("check", "lint, types, import direction, templates, tidy tests", _check),
    Command("docs", "write the reference pages from the tables in the code", _docs),
    Command("simulate", "the broker in a seeded world with faults", _simulate),
    Command("bench", "throughput, latency, idle cost and loop lag, measured", _bench),
    Command("version", "print the version", _version),
)
