"""A tiny run of the real thing: that it works, not how fast it is."""

import json
from pathlib import Path

import pytest

from broker.bench.command import main


def test_a_short_run_reports_every_promise_as_json(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ["--seconds", "0.5", "--json", "--directory", str(tmp_path)]
    main(["produce-16k", "latency", *flags])
    report = json.loads(capfd.readouterr().out)
    produce, latency = report["rows"]
    assert produce["scenario"] == "produce-16k"
    assert produce["measures"][0]["value"] > 0
    assert produce["measures"][0]["bound"] == 100_000
    assert produce["broker_cpu_percent"] > 0
    assert {measure["name"] for measure in latency["measures"]} >= {"P99", "P99.9"}
    assert not list(tmp_path.iterdir())  # the broker and its data are gone


def test_how_costs_grow_is_told_as_json_and_drawn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "growth.svg"
    flags = ["--seconds", "0.3", "--series-max", "2", "--json", "--plot", str(plot)]
    main(["connections", *flags])
    (row,) = json.loads(capfd.readouterr().out)["rows"]
    cost, memory = row["series"]
    assert (cost["name"], memory["name"]) == ("CPU a request", "resident")
    assert [x for x, _ in cost["points"]] == [1, 2]
    drawn = plot.read_text()
    assert drawn.startswith("<svg")
    assert "CPU a request" in drawn


def test_an_unknown_scenario_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["produce-2k"])
    assert "produce-128k" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999"])
@pytest.mark.parametrize("words", [["latency", "--bootstrap"], ["compare", "--peer"]])
def test_a_broker_that_does_not_answer_is_named_without_a_flood_of_lines(
    words: list[str], address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, address]) != 0
    errors = capfd.readouterr().err
    assert f"nobody answers at {address}: " in errors
    assert len(errors.splitlines()) <= 3


@pytest.mark.parametrize("words", [["latency"], ["compare", "--peer", "127.0.0.1:1"]])
@pytest.mark.parametrize("value", ["-3", "0", "nan", "many"])
def test_a_length_that_is_not_positive_is_refused(
    words: list[str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*words, f"--seconds={value}"])
    assert (
        f"argument --seconds: must be a number above 0, found {value!r}" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--minutes=-1"],
        ["--partitions=0"],
        ["--rate=-5"],
        ["--record-bytes=0"],
        ["compare", "--peer=127.0.0.1:1", "--pairs=0"],
    ],
)
def test_a_count_that_is_not_positive_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert ": must be a" in capsys.readouterr().err
