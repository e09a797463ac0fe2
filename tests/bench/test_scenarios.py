"""Every scenario of the raw load runs and counts, in tiny sizes; nothing here is about speed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.bench import segments
from broker.bench.compare import main as compare
from broker.bench.measure import Row
from broker.bench.running import Options, run_raw
from broker.bench.sample import HISTORY, check_count, topic_of
from broker.bench.scenarios import SCENARIOS
from broker.bench.target import BenchFault, OwnBroker

TINY = Options(
    0.3, 3, 200, "all", minutes=0.05, rate=500, series_max=20, history_bytes=20_000_000,
    memory_bytes=1 << 30, bytes_max=20_000_000,
)  # fmt: skip
RUN = ("produce", "consume", "latency", "small-requests", "connections", "partitions", "soak")


@pytest.fixture(scope="module")
def broker() -> Iterator[OwnBroker]:
    with OwnBroker() as running:
        yield running


def run(name: str, broker: OwnBroker, options: Options = TINY) -> Row:
    return next(one for one in SCENARIOS if one.name == name).run(broker, options)


@pytest.mark.parametrize("name", RUN)
def test_a_scenario_counts_what_it_sent(name: str, broker: OwnBroker) -> None:
    row = run(name, broker)
    rates = [measure.value for measure in row.measures if measure.unit in {"msg/s", "µs"}]
    assert rates
    assert min(rates) > 0
    assert row.broker_cpu_percent


def test_series_go_by_tens_to_their_end(broker: OwnBroker) -> None:
    row = run("connections", broker)
    assert [x for x, _ in row.series[0].points] == [1, 10, 20]


def test_a_held_rate_is_held_against_its_promises(broker: OwnBroker) -> None:
    row = run("hold", broker, TINY._replace(durability="replicated"))
    bounds = {measure.name: measure.bound for measure in row.measures}
    assert bounds["held"] == 0.99 * 500
    assert bounds["P99"] == 50


def test_a_cold_replay_is_proved_by_the_metrics_of_the_broker(tmp_path: object) -> None:
    with OwnBroker(str(tmp_path)) as own:
        row = run("catch-up", own)
    values = {measure.name: measure.value for measure in row.measures}
    assert values["history"] == pytest.approx(0.02, rel=0.1)
    assert values["page cache hit ratio"] <= 10
    assert values["live P99 alone"] > 0


def test_a_start_with_closed_segments_is_held_against_one_with_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "RESTARTS", 1)
    with OwnBroker(str(tmp_path)) as own:
        row = run("open-segments", own)
    found = {measure.name: measure for measure in row.measures}
    assert found["closed segments"].value >= 20
    for name in ("clean stop", "kill"):
        none, full = (found[f"{name}, {what}: ready after"].value for what in ("none", "all"))
        share = found[f"{name}, all over none"]
        assert (share.value, share.bound) == (pytest.approx(100 * full / none), 110)


def test_what_a_broker_refuses_is_no_throughput(
    broker: OwnBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    refusing = topic_of(broker, TINY, 1, max_message_bytes="1000")
    with refusing as topic, pytest.raises(BenchFault, match="exit code 1"):
        run_raw(
            broker, kind="produce", topic=topic, partitions=1, connections=1, window=1,
            record_bytes=100, batch_bytes=16_384, acks="all", seconds=1, bytes_max=1 << 20,
        )  # fmt: skip
    assert "was refused with error 10" in capfd.readouterr().err


def test_a_rate_that_no_broker_takes_is_given_up_and_what_was_sent_counts(
    broker: OwnBroker,
) -> None:
    rate = 30_000_000
    with topic_of(broker, TINY, 6) as topic:
        sent = run_raw(
            broker, kind="pace", topic=topic, rate=rate, tick_ms=1, partitions=6, record_bytes=64,
            acks="all", seconds=0.2,
        )  # fmt: skip
        check_count(broker, topic, 6, sent["records"])
    assert 0 < sent["rate"] < rate / 1.5
    assert sent["records"] < 0.2 * rate


def test_a_count_that_differs_from_the_topic_is_a_fault(broker: OwnBroker) -> None:
    said = "5 records were acknowledged, 0 are stored"
    with topic_of(broker, TINY, 1) as topic, pytest.raises(BenchFault, match=said):
        check_count(broker, topic, 1, 5)


def test_two_brokers_are_compared_pair_by_pair(
    broker: OwnBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ["--peer", broker.bootstrap, "--peer-is-hermes", "--pairs", "1", "--seconds", "0.3"]
    assert compare([*flags, "--rows", "idle", "small-ping-pong"]) == 1
    idle, speed, *_ = capfd.readouterr().out.splitlines()
    assert "1 pairs count, 5 are needed: 1 pairs were run (at most 0.2×)" in idle
    assert "load used up to 0 %" in speed


def test_a_row_that_does_not_exist_is_refused_with_the_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        compare(["--peer", "127.0.0.1:1", "--rows", "fastest"])
    assert "produce-100b-128kb" in capsys.readouterr().err


def test_the_history_of_a_comparison_spans_several_batches() -> None:
    assert HISTORY.batch_bytes > HISTORY.record_bytes
