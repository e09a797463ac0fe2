import subprocess
import sys
from pathlib import Path

import pytest

from broker.cli import COMMANDS, main, with_setting_flags

ROOT = Path(__file__).resolve().parent.parent


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {command.name}" in printed for command in COMMANDS)


def test_an_unknown_command_is_refused_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["srve"]) == 2
    assert "Did you mean `hermes serve`?" in capsys.readouterr().err


def test_short_flags_of_serve_stand_for_settings() -> None:
    assert with_setting_flags(["--data", "d", "--kafka-port=0", "--metrics-port", "1"]) == [
        *("--log-dir", "d"),
        *("--listeners", "PLAINTEXT://127.0.0.1:0"),
        *("--hermes-metrics-port", "1"),
    ]
    assert with_setting_flags(["--supervised", "--log-segment-bytes=9"]) == [
        "--supervised",
        "--log-segment-bytes=9",
    ]


def test_a_short_flag_without_its_value_is_left_for_the_settings_to_refuse() -> None:
    assert with_setting_flags(["--data"]) == ["--data"]


def test_the_help_of_serve_documents_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--log-segment-bytes\n" in printed
    assert "--listeners\n" in printed


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_has_help(name: str) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "broker", name, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert f"hermes {name}" in outcome.stdout


def test_serve_loads_neither_django_nor_librdkafka_nor_the_tests_tools() -> None:
    script = (
        "import sys, broker.cli\n"
        "broker.cli.main(['serve', '--no-such-setting', '1'])\n"
        "assert 'broker.server.node' in sys.modules\n"
        "heavy = {'django', 'confluent_kafka', 'pytest', 'hypothesis', 'kio', 'celery', 'yaml',\n"
        "    'rich.traceback', 'twisted.python', 'aiohttp', 'argparse', 'importlib.metadata',\n"
        "    'email', 'ssl'}\n"
        "print([name for name in sorted(heavy) if sys.modules.get(name) is not None])"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert outcome.stdout.strip() == "[]"


def test_a_command_on_a_cluster_loads_no_tool_that_only_other_programs_use() -> None:
    script = (
        "import sys, broker.cli\n"
        "broker.cli.main(['topics', 'list', '--bootstrap', '127.0.0.1:1'])\n"
        "assert 'broker.client.blocking_loop' in sys.modules\n"
        "heavy = {'rich', 'twisted', 'greenlet', 'aiohttp', 'django', 'confluent_kafka', 'yaml'}\n"
        "print([name for name in sorted(heavy) if sys.modules.get(name) is not None])"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert outcome.stdout.strip().splitlines()[-1] == "[]", outcome.stdout


def test_asserts_switched_off_are_refused() -> None:
    outcome = subprocess.run(
        [sys.executable, "-O", "-m", "broker", "version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 2
    assert "python -O" in outcome.stderr


def test_a_reader_that_goes_away_ends_a_command_without_a_trace() -> None:
    command = [sys.executable, "-m", "broker", "simulate", "--seeds", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")
