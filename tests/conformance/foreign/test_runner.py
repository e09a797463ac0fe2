"""The runner itself, with a small suite: what it lets pass and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.foreign.runner import Verdict, judge
from tests.conformance.foreign.scope import OutOfScope
from tests.conformance.foreign.sources import SourceMissing, root_of
from tests.conformance.foreign.suites import Checkout, Sdist, Suite

SOURCE: Final = Sdist("no-such-project-here", "1", "0" * 64, directory="tests")
SUITE: Final = Suite(
    "small", "a small suite", SOURCE, targets=("tests",), passed=2, in_every_run=True
)
TESTS: Final = """
import os, pytest
from trivup.clusters.KafkaCluster import KafkaCluster

def step():
    raise AssertionError("not offered")

def test_is_pointed_at_the_broker():
    assert KafkaCluster(version="1").client_conf() == {"bootstrap.servers": "host:1"}
    assert os.environ["BROKERS"] == "host:1"

@pytest.mark.parametrize("kind", ["plain", "packed"])
def test_needs_an_api(kind):
    raise AssertionError("not offered")

def test_with_a_step():
    step()
"""
NEEDS_API: Final = OutOfScope("tests/test_it.py::test_needs_an_api", "an API", "uses it")
STEP: Final = OutOfScope("tests/test_it.py:step", "an API", "one step")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    return tmp_path


def judged(root: Path, *out_of_scope: OutOfScope) -> Verdict:
    return judge(SUITE, root, out_of_scope, "host:1", seconds_max=60)


def test_what_is_out_of_scope_is_not_run_and_the_rest_is(root: Path) -> None:
    verdict = judged(root, NEEDS_API, STEP)
    assert (verdict.code, verdict.passed, verdict.troubles) == (0, 2, []), verdict.output


def test_a_failure_in_scope_is_told_with_what_it_says(root: Path) -> None:
    verdict = judged(root, NEEDS_API)
    assert verdict.code == 1
    (trouble,) = verdict.troubles
    assert trouble.name.endswith("test_with_a_step")
    assert "not offered" in trouble.trouble


def test_a_skip_is_no_pass(root: Path) -> None:
    (root / "tests" / "test_skips.py").write_text(
        "import pytest\ndef test_skips():\n    pytest.skip('for another time')\n"
    )
    (trouble,) = judged(root, NEEDS_API, STEP).troubles
    assert "for another time" in trouble.trouble


@pytest.mark.parametrize(
    "gone", ["tests/test_it.py::test_gone", "tests/test_gone.py", "tests/test_it.py:gone"]
)
def test_an_entry_that_matches_nothing_stops_the_run(root: Path, gone: str) -> None:
    verdict = judged(root, NEEDS_API, STEP, OutOfScope(gone, "an API", "was there once"))
    assert verdict.code not in {0, 1}
    assert gone in verdict.output


def test_a_suite_that_does_not_end_is_ended(root: Path) -> None:
    (root / "tests" / "test_waits.py").write_text(
        "import time\ndef test_waits():\n    time.sleep(600)\n"
    )
    verdict = judge(SUITE, root, (NEEDS_API, STEP), "host:1", seconds_max=5)
    assert verdict.code == -1
    assert "not done in 5 s" in verdict.output


@pytest.mark.parametrize("repository", ["", "nowhere.git"])
def test_a_source_that_cannot_be_got_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str
) -> None:
    given = str(tmp_path / repository) if repository else ""
    monkeypatch.setenv("HERMES_JUDGES_NO_SUCH", given)
    source = Checkout(
        project="no-such-project-here",
        version="1",
        commit="0" * 40,
        directory="tests",
        variable="HERMES_JUDGES_NO_SUCH",
    )
    suite = Suite("gone", "gone", source, targets=("tests",), passed=0, in_every_run=False)
    with pytest.raises(SourceMissing, match="HERMES_JUDGES_NO_SUCH"):
        root_of(suite)
