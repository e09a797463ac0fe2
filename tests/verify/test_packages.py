from pathlib import Path

import pytest

from broker.verify.packages import PACKAGES, install_command, missing_packages


def test_what_is_not_on_the_machine_is_missing_and_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_packages(["kcat"]) == ["kcat"]
    assert install_command(["kcat", "maven"]).endswith(
        "apt-get install -y --no-install-recommends kcat maven"
    )


def test_one_of_several_programs_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "kafkacat"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_packages(["kcat"]) == []


def test_every_package_is_listed_once_and_says_what_needs_it() -> None:
    names = [package.name for package in PACKAGES]
    assert len(names) == len(set(names))
    assert all(package.programs and package.needed_for for package in PACKAGES)
