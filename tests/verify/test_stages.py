import subprocess
import sys
from pathlib import Path

import pytest

from broker.verify import check, stages
from broker.verify.stages import STAGES, Tally, main, paths

TESTS = Path(__file__).resolve().parent.parent


def test_every_directory_of_tests_is_in_exactly_one_stage_and_may_be_again_beside_services() -> (
    None
):
    chosen = [path for stage in STAGES if not stage.has_services for path in paths(stage)]
    again = {path for stage in STAGES if stage.has_services for path in paths(stage)}
    assert again
    assert all(path.startswith(tuple(chosen)) for path in again)
    with_tests = {
        f"tests/{path.name}"
        for path in TESTS.iterdir()
        if (path.is_dir() and any(path.rglob("test_*.py"))) or path.name.startswith("test_")
    }
    assert sorted(chosen) == sorted(set(chosen))
    assert {path for path in chosen if any((TESTS.parent / path).rglob("test_*.py"))} | {
        path for path in chosen if path.endswith(".py")
    } == with_tests


def test_the_counts_of_a_run_are_read_from_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="10" failures="1" errors="2" skipped="3"/></testsuites>'
    )
    assert stages._tally(report) == Tally(passed=4, failed=3, skipped=3)
    assert stages._tally(tmp_path / "none.xml") == Tally(0, 0, 0)


@pytest.mark.parametrize(
    ("code", "tally", "expected"),
    [
        (0, Tally(5, 0, 0), 0),
        (1, Tally(4, 1, 0), 1),
        (5, Tally(0, 0, 0), 1),
        (2, Tally(0, 0, 0), 1),
    ],
)
def test_the_summary_fails_for_a_failed_stage_and_for_one_without_a_test(
    code: int, tally: Tally, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    result = stages.StageResult("unit", code, 1.0, tally)
    assert stages._summarize([result], is_filtered=False) == expected
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"total: {tally.passed} passed, {tally.failed} failed"


def test_a_stage_that_a_filter_emptied_is_no_failure_if_another_ran() -> None:
    empty = stages.StageResult("unit", 5, 1.0, Tally(0, 0, 0))
    full = stages.StageResult("browser", 0, 1.0, Tally(3, 0, 0))
    assert stages._summarize([empty, full], is_filtered=True) == 0
    assert stages._summarize([empty], is_filtered=True) == 1


def test_a_stage_can_be_listed_without_its_services_and_is_no_failure() -> None:
    done = subprocess.run(
        [*(sys.executable, "-m", "broker", "test", "--stage", "services"), "--collect-only"],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/console/test_tokens.py::" in done.stdout
    assert "summary" not in done.stdout


def test_an_unknown_step_or_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        check.main(["spelling"])
    assert "there are types, lint" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["--stage", "nonsense"])
