"""Runs a parsed command: reach the cluster, act, and say in one line on standard error what failed
and what to do.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
from collections.abc import Awaitable, Callable
from typing import Final

from broker.client.blocking_loop import settings_for
from broker.client.cluster import Cluster, parse_address
from broker.client.failure import BrokerRefusal, ClientError, Unsupported
from broker.commands import text
from broker.commands.context import Context, Refused, hint_for
from broker.commands.table import Command
from broker.commands.terminal import Declined, Terminal
from broker.config.client import ClientSettings
from broker.runtime.clock import SystemClock
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
UNREACHABLE: Final = 3
LINGER_MS: Final = 5
BATCH_BYTES: Final = 128 * 1024


async def run(command: Command, options: argparse.Namespace) -> int:
    """The exit code. Raises BrokenPipeError when nobody reads the output any more."""
    clock = SystemClock()
    is_json = options.json and not command.streams
    terminal = Terminal(command.name, is_json=is_json, monotonic_ms=clock.monotonic_ms)
    try:
        settings = _settings(options)
    except Unsupported as error:
        terminal.say(f"hermes {command.name}: --bootstrap: {error}")
        return WRONG_USAGE
    cluster = Cluster(SystemNetwork(), clock, SystemIds(), settings)
    code = DONE
    try:
        if not command.is_offline:
            code = await _contact(cluster, terminal, options.bootstrap)
        if code == DONE:
            code = await _function(command)(Context(options, terminal, cluster))
    except (Refused, Declined, text.BadText) as error:
        terminal.fail(command.name, str(error))
        code = FAILED
    except BrokerRefusal as error:
        terminal.fail(command.name, error, hint=hint_for(error))
        code = FAILED
    except ClientError as error:
        terminal.fail(command.name, error, hint=_advice(error, options.bootstrap))
        is_unreachable = error.is_retriable and not isinstance(error.__cause__, BrokerRefusal)
        code = UNREACHABLE if is_unreachable else FAILED
    finally:
        await cluster.close()
    terminal.finish()
    return FAILED if code == DONE and terminal.has_failed else code


def _settings(options: argparse.Namespace) -> ClientSettings:
    """Raises Unsupported for a bad address."""
    settings = settings_for(
        options.bootstrap, client_id="hermes-cli", timeout_ms=int(options.timeout * 1000)
    )
    for server in settings.bootstrap_servers:
        parse_address(server)
    return dataclasses.replace(
        settings, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, auto_offset_reset="earliest"
    )


def _function(command: Command) -> Callable[[Context], Awaitable[int]]:
    module, _, name = command.run.partition(":")
    function: Callable[[Context], Awaitable[int]] = getattr(
        importlib.import_module(f"broker.commands.{module}"), name
    )
    return function


async def _contact(cluster: Cluster, terminal: Terminal, bootstrap: str) -> int:
    """One attempt, so that a wrong address is told at once and not after every repeat."""
    try:
        await cluster.refresh([])
    except ClientError as error:
        terminal.fail(
            bootstrap, f"no broker answers at {bootstrap}: {error}", hint=_start_hint(str(error))
        )
        return UNREACHABLE
    return DONE


def _start_hint(words: str) -> str:
    if "no Kafka broker" in words or "TLS" in words:
        return "The address is another program's: --bootstrap wants a Kafka listener's"
    if "does not offer it" in words:
        return "It may be a controller's address: --bootstrap wants a broker's"
    return (
        "Is it running (`hermes up`), and is this its address? "
        "Another one: --bootstrap HOST:PORT, or HERMES_BOOTSTRAP"
    )


def _advice(error: ClientError, bootstrap: str) -> str:
    if "cannot connect to" in str(error):
        return (
            f"{bootstrap} answered and named that address as a broker's: it must be reachable "
            "from here (the broker's advertised.listeners)"
        )
    return ""
