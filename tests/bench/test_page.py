from tests.benchmarks.page import page

HEAD = {
    "command": "python -m x", "machine": "a machine", "versions": "Apache Kafka 4.4.0",
    "first": "2026-01-01 00:00", "last": "2026-01-01 00:20 UTC",
    "notes": " It was warm.",
}  # fmt: skip
JUDGED = {
    "measure": "produced", "ours": 200_000.4, "peer": 100_000.0, "ratio": 2.0, "lowest": 1.9,
    "highest": 2.2, "counted": 5, "target": 1.0, "is_floor": True, "verdict": "ok", "why": "",
}  # fmt: skip


def test_a_row_says_both_values_the_ratio_its_spread_and_the_verdict() -> None:
    row = {"summary": "produce 1KB × 16KB", "measures": [JUDGED]}
    missed = {**JUDGED, "verdict": "missed", "why": "by 20 %", "ratio": 0.8}
    text = page(HEAD, [("Defaults", [row, {"summary": "b", "measures": [missed]}])], [], [])
    assert (
        "| produce 1KB × 16KB | produced, msg/s | 200,000 | 100,000 | 2.00× | 1.90 to 2.20 "
        "| ok (at least 1×) |"
    ) in text
    assert "| missed by 20 % (at least 1×) |" in text
    tiny = {**JUDGED, "ratio": 0.00417, "lowest": 0.0009, "highest": 0.05}
    text = page(HEAD, [("Fsync", [{"summary": "c", "measures": [tiny]}])], [], [])
    assert "| 0.0042× | 0.00090 to 0.050 |" in text
    assert "Machine: a machine. Apache Kafka 4.4.0." in text


def test_what_was_not_measured_is_said() -> None:
    text = page(HEAD, [("Defaults", [])], [], [])
    assert "to 2026-01-01 00:20 UTC. It was warm.\n" in text
    assert text.count("Not measured yet.") == 3


def test_a_promise_says_whether_it_was_kept() -> None:
    measure = {
        "name": "P99", "value": 12.345, "unit": "ms", "bound": 50.0, "is_floor": False,
        "is_met": True,
    }  # fmt: skip
    alone = {"scenario": "hold", "measures": [measure], "notes": ["late"]}
    assert "| hold | P99 | 12.35 ms | ok (at most 50) |" in page(HEAD, [], [alone], [])


def test_a_series_is_a_table_with_a_line_for_each_of_its_points() -> None:
    cost = {
        "name": "CPU a request", "x_name": "connections", "unit": "µs",
        "points": [[1, 20.25], [10, 21.5], [5_000, 120.4]],
    }  # fmt: skip
    memory = {**cost, "name": "resident", "unit": "MB", "points": [[1, 55], [10, 56], [5_000, 99]]}
    text = page(HEAD, [], [], [{"scenario": "connections", "series": [cost, memory]}])
    assert "| connections | CPU a request, µs | resident, MB |\n|---:|---:|---:|\n" in text
    assert "| 1 | 20.25 | 55.00 |\n" in text
    assert "| 5,000 | 120 | 99.00 |\n" in text
