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


def test_an_unknown_scenario_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["produce-2k"])
    assert "produce-128k" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_named_without_a_flood_of_lines(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("broker.bench.target.TOPIC_S_MAX", 0.5)
    assert main(["latency", "--bootstrap", "127.0.0.1:1"]) != 0
    errors = capfd.readouterr().err
    assert "at 127.0.0.1:1: no answer within 0.5 s" in errors
    assert len(errors.splitlines()) <= 3
