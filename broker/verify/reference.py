"""The reference pages in docs/reference/, made from the tables: `hermes docs` writes them, a test
compares them. Never edited by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from broker.commands import reference as commands
from broker.config.broker import BrokerSettings
from broker.config.client import ClientSettings
from broker.config.gateway import GatewaySettings
from broker.config.group import GroupSettings
from broker.config.setting import Setting, settings_of, to_kafka_value
from broker.config.sources import BROKER_PREFIX, environment_name, flag_name
from broker.config.topic import TopicSettings
from broker.errors import ERRORS
from broker.headers import HEADERS
from broker.metrics import GATEWAY_METRICS, METRICS, MetricSpec
from broker.wire.api import APIS

DIRECTORY: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"
_NOTICE: Final = "<!-- Made by `./hermes docs` from the tables in the code: change those. -->"
_GATEWAY: Final = (
    "Of one `hermes gateway`: `port` is `port: 8080` in the file that `--config` names, "
    "`HERMES_GATEWAY_PORT` in the environment and `--port 8080` as a flag."
)
_CLIENT: Final = (
    "Of HermesMQ's own client, given to it in code: no file, variable or flag sets them."
)


def main(arguments: Sequence[str]) -> int:
    """Writes every page; 0."""
    argparse.ArgumentParser(
        prog="hermes docs", description="Write docs/reference/ from the tables in the code."
    ).parse_args(arguments)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (DIRECTORY / name).write_text(page(), encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


def settings_page() -> str:
    """Every setting by scope, with its names, default, bounds and whether it is live."""
    sections = [
        ("Broker", BrokerSettings, "Of one broker process, and cluster-wide defaults of topics."),
        ("Topic", TopicSettings, "Of one topic; what it does not set comes from its broker."),
        ("Group", GroupSettings, "Of the group coordinator; part of the broker's settings."),
        ("Gateway", GatewaySettings, _GATEWAY),
        ("Client", ClientSettings, _CLIENT),
    ]
    lines = [
        *("# Settings", "", _NOTICE, ""),
        "Names are Apache Kafka's where it has the setting; ours begin with `hermes.`. A broker",
        "setting `a.b` is `a.b: value` in the file, `HERMES_BROKER_A_B` in the environment and",
        "`--a-b value` as a flag: "
        f"`log.segment.bytes` is `{environment_name(BROKER_PREFIX, 'log.segment.bytes')}` and "
        f"`{flag_name('log.segment.bytes')}`.",
        "**Live** settings take effect at once when an admin tool changes them; others need a "
        "restart.",
    ]
    for title, table, meaning in sections:
        lines += ["", f"## {title}", "", meaning, ""]
        lines += _table(
            ("name", "default", "bounds", "live", "meaning"),
            (_setting_row(row) for row in settings_of(table).values()),
        )
    return _text(lines)


def _setting_row(row: Setting) -> tuple[str, ...]:
    aliases = "".join(f"<br>also `{alias.name}`" for alias in row.aliases)
    default = to_kafka_value(row.default)
    unit = f" {row.unit.value}" if row.unit.value and default else ""
    return (
        f"`{row.name}`{aliases}",
        f"`{default}`{unit}" if default else "empty",
        _bounds(row),
        "yes" if row.is_live else "restart",
        row.documentation,
    )


def _bounds(row: Setting) -> str:
    if row.choices:
        return ", ".join(f"`{choice}`" for choice in row.choices)
    if row.minimum is None and row.maximum is None:
        return ""
    low = "" if row.minimum is None else f"{row.minimum}"
    high = "" if row.maximum is None else f"{row.maximum}"
    return f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"


def metrics_page() -> str:
    """Every metric with its type and labels."""
    heading = ("name", "type", "labels", "meaning")
    return _text(
        [
            *("# Metrics", "", _NOTICE, ""),
            "What `/metrics` shows, as Prometheus text. Durations are in seconds, sizes in bytes;",
            "a name that ends in `_total` only grows.",
            *("", "## Broker", ""),
            *_table(heading, map(_metric_row, METRICS)),
            *("", "## Gateway", ""),
            *_table(heading, map(_metric_row, GATEWAY_METRICS)),
        ]
    )


def _metric_row(spec: MetricSpec) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in spec.labels)
    return f"`{spec.name}`", spec.kind.value, labels, spec.documentation


def errors_page() -> str:
    """Every error code that this broker sends or understands."""
    rows = (
        (str(int(e.code)), f"`{e.name}`", "yes" if e.is_retriable else "no", e.meaning)
        for e in ERRORS.values()
    )
    return _text(
        [
            *("# Errors", "", _NOTICE, ""),
            "The protocol's error codes. **Retriable**: the same request may succeed later",
            "without a change; clients retry it by themselves.",
            "",
            *_table(("code", "name", "retriable", "meaning"), rows),
        ]
    )


def protocol_page() -> str:
    """Every API with the versions that are answered, and the record headers of our own."""
    apis = (
        (str(api.key), api.name, f"{api.min_version} to {api.max_version}")
        for api in sorted(APIS.values(), key=lambda api: api.key)
    )
    headers = ((f"`{h.name}`", h.written_by, h.meaning) for h in HEADERS)
    return _text(
        [
            *("# Protocol", "", _NOTICE, ""),
            "The APIs of the Kafka protocol that the broker answers, as ApiVersions tells clients.",
            "",
            *_table(("key", "API", "versions"), apis),
            *(
                "",
                "## Record headers",
                "",
                "The names that HermesMQ's own programs write or read.",
                "",
            ),
            *_table(("header", "written by", "meaning"), headers),
        ]
    )


def commands_page() -> str:
    """Every command on a cluster with its arguments."""
    return commands.page(_NOTICE)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings.md": settings_page,
    "metrics.md": metrics_page,
    "errors.md": errors_page,
    "protocol.md": protocol_page,
    "cli.md": commands_page,
}


def _table(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    rule = ["---"] * len(heading)
    return [f"| {' | '.join(row)} |" for row in (heading, rule, *cells)]


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
