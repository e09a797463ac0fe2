"""The container files name only what exists: files, settings, variables, services."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.runtime.settings_source import read_broker_settings
from hermes_console import environment

HOME = Path(__file__).resolve().parent.parent
DOCKERFILE = (HOME / "docker/Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((HOME / "docker/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::[-?]([^}]*))?\}")


def test_image_copies_what_the_repository_has() -> None:
    ignored = (HOME / "docker/Dockerfile.dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (HOME / source).exists(), f"{source} does not exist"
            assert f"!{source.removeprefix('./')}" in ignored, f"{source} is kept from the build"


def test_image_runs_as_nobody_in_particular_with_the_locked_environment() -> None:
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", DOCKERFILE, re.MULTILINE)
    assert "--require-hashes" in DOCKERFILE


@pytest.mark.parametrize("name", OURS)
def test_our_services_listen_on_this_machine_alone(name: str) -> None:
    service = SERVICES[name]
    assert service["network_mode"] == "host"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    hosts = re.findall(r"(?:--host=|PLAINTEXT://)([^:\s]+)", " ".join(service["command"]))
    assert set(hosts) <= {"127.0.0.1"}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - set(OURS)))
def test_foreign_services_are_pinned_published_on_loopback_and_watched(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[a-z]+:\d+[\w.-]*", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["healthcheck"]["test"]


def test_every_dependency_can_become_healthy() -> None:
    for name, service in SERVICES.items():
        for needed in service.get("depends_on", {}):
            assert "healthcheck" in SERVICES[needed], f"{name} waits for {needed} for ever"


def test_console_is_given_variables_it_reads() -> None:
    source = Path(environment.__file__).read_text()
    for name in OURS:
        for variable in SERVICES[name].get("environment", {}):
            assert f'"{variable}"' in source, f"{name}: nothing reads {variable}"
    values = resolve(SERVICES["console"]["environment"])
    found = environment.read_environment(values, HOME)
    assert found.database is not None
    assert not found.is_embedded
    assert found.bootstrap == "127.0.0.1:9092"


def test_broker_is_given_flags_it_has() -> None:
    flags = [word for word in SERVICES["broker"]["command"] if word.startswith("--")]
    arguments = shlex.split(resolve_text(" ".join(flags)))
    settings = read_broker_settings(arguments, {})
    assert settings.listener.host == "127.0.0.1"


def test_readme_names_every_variable_of_the_compose_file() -> None:
    readme = (HOME / "docker/README.md").read_text()
    used = {name for name, _ in VARIABLE.findall((HOME / "docker/compose.yaml").read_text())}
    assert {name for name in used if name not in readme} == {"HERMES_IMAGE"}


def resolve(values: dict[str, str]) -> dict[str, str]:
    return {name: resolve_text(value) for name, value in values.items()}


def resolve_text(text: str) -> str:
    """As compose does without an `.env`; a required variable becomes `given`."""
    return VARIABLE.sub(lambda found: found[2] if ":-" in found[0] else "given", text)
