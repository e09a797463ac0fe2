from broker.bench.follow import Reading

MS = 1_000_000


def reading(*records: tuple[int, int]) -> Reading:
    """Of (sent, late) in milliseconds."""
    found = Reading()
    found.sent_ns.extend(sent * MS for sent, _ in records)
    found.late_ns.extend(late * MS for _, late in records)
    return found


def test_a_window_counts_what_was_sent_in_it() -> None:
    found = reading((9, 50), (10, 1), (11, 3), (19, 2), (20, 90))
    assert found.window(10 * MS, 20 * MS) == {"count": 3, "p50_ms": 2, "p99_ms": 3}
    assert found.window(30 * MS, 40 * MS) is None


def test_a_reader_has_caught_up_with_the_first_record_that_comes_without_delay() -> None:
    found = reading((0, 1), (1_000, 9_000), (9_500, 1_500), (10_600, 900))
    assert found.caught_up_s(10_000 * MS) == 1.5
    assert reading((0, 20_000)).caught_up_s(10_000 * MS) is None
