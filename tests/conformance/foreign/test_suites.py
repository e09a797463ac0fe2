"""kafka-python's and confluent-kafka-python's own integration suites against our broker."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Final

import pytest

from broker.verify.stages import JUDGES_VARIABLE
from tests.conformance.foreign.runner import run_suite
from tests.conformance.foreign.scope import OUT_OF_SCOPE
from tests.conformance.foreign.suites import SUITES, Suite

CHOSEN: Final = [
    suite for suite in SUITES if suite.in_every_run or os.environ.get(JUDGES_VARIABLE) == "all"
]


@pytest.mark.parametrize("suite", CHOSEN, ids=[suite.name for suite in CHOSEN])
def test_a_foreign_suite_passes_but_for_what_needs_an_api_that_is_not_there(
    suite: Suite, bootstrap: str
) -> None:
    """Every failure and every skip counts, and so does a test that is not there any more."""
    verdict = run_suite(suite, bootstrap)
    troubles = "\n\n".join(f"{case.name}\n{case.trouble}" for case in verdict.troubles)
    assert not troubles, f"{len(verdict.troubles)} of {len(verdict.cases)} tests:\n{troubles}"
    assert verdict.code == 0, verdict.output
    assert verdict.passed == suite.passed, "change `passed` in suites.py if this is meant"


def test_each_suite_has_its_scope() -> None:
    assert {suite.name for suite in SUITES} == set(OUT_OF_SCOPE)


def test_the_suite_of_kafka_python_is_that_of_the_client_that_it_judges() -> None:
    (suite,) = [suite for suite in SUITES if suite.name == "kafka-python"]
    assert suite.source.version == version("kafka-python")
