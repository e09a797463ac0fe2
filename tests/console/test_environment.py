"""What the console reads from its environment, and how it complains."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_console.environment import BadEnvironment, read_environment
from hermes_console.secret import load_or_create_secret

HERE = Path("/srv")


def test_nothing_set_is_the_embedded_installation() -> None:
    found = read_environment({}, HERE)
    assert found.is_embedded
    assert found.database is None
    assert found.console_directory == Path("/srv/.hermes/console")
    assert (found.cluster_name, found.bootstrap) == ("local", "127.0.0.1:9092")
    assert found.allowed_hosts == ("localhost", "127.0.0.1", "[::1]")
    assert not found.is_secure


def test_production_is_postgresql_and_redis() -> None:
    found = read_environment(
        {
            "HERMES_DATABASE_URL": "postgresql://her%40mes:p%2Fw@db:5433/console",
            "HERMES_REDIS_URL": "redis://cache:6379/0",
            "HERMES_SECURE": "true",
        },
        HERE,
    )
    assert found.database is not None
    assert found.database["USER"] == "her@mes"
    assert found.database["PASSWORD"] == "p/w"
    assert (found.database["HOST"], found.database["PORT"]) == ("db", "5433")
    assert found.database["NAME"] == "console"
    assert not found.is_embedded
    assert found.is_secure


@pytest.mark.parametrize(("text", "kept"), [("", 16), ("40", 40), ("0", None)])
def test_connections_to_postgresql_are_kept_up_to_a_number(text: str, kept: int | None) -> None:
    variables = {"HERMES_DATABASE_URL": "postgresql://db/console"}
    found = read_environment({**variables, "HERMES_DATABASE_CONNECTIONS": text}, HERE).database
    assert found is not None
    options = found.get("OPTIONS", {})
    assert isinstance(options, dict)
    assert options.get("pool", {}).get("max_size") == kept


def test_metrics_address_without_a_path_means_metrics() -> None:
    found = read_environment({"HERMES_METRICS_URL": "http://b:9404"}, HERE)
    assert found.metrics_url == "http://b:9404/metrics"


def test_cluster_may_have_no_metrics_address() -> None:
    assert read_environment({"HERMES_METRICS_URL": ""}, HERE).metrics_url == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HERMES_DATABASE_URL", "mysql://x/y"),
        ("HERMES_DATABASE_URL", "postgresql://host"),
        ("HERMES_DATABASE_CONNECTIONS", "3"),
        ("HERMES_DATABASE_CONNECTIONS", "1001"),
        ("HERMES_DATABASE_CONNECTIONS", "-4"),
        ("HERMES_REDIS_URL", "http://x"),
        ("HERMES_BOOTSTRAP", "localhost"),
        ("HERMES_BOOTSTRAP", "a:1,b:99999"),
        ("HERMES_METRICS_URL", "file:///etc/passwd"),
        ("HERMES_CLUSTER_NAME", "Über"),
        ("HERMES_SECURE", "maybe"),
    ],
)
def test_bad_value_is_refused_by_its_variable(name: str, value: str) -> None:
    with pytest.raises(BadEnvironment, match=name):
        read_environment({name: value}, HERE)


def test_secret_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret.key"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: load_or_create_secret(path), range(16)))
    assert len(keys) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret.key"]


def test_damaged_secret_key_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text("short")
    with pytest.raises(RuntimeError, match="remove it"):
        load_or_create_secret(path)


def test_days_of_the_audit_are_a_number_or_refused() -> None:
    assert read_environment({}, Path("/")).audit_days == 400
    assert read_environment({"HERMES_AUDIT_DAYS": "0"}, Path("/")).audit_days == 0
    for text in ("-1", "a year", "1.5", "٣", "99999999"):
        with pytest.raises(BadEnvironment, match="HERMES_AUDIT_DAYS"):
            read_environment({"HERMES_AUDIT_DAYS": text}, Path("/"))
