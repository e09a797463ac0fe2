from broker.up.backoff import DELAY_S_MAX, STEADY_S, Backoff


def test_delays_double_from_half_a_second_up_to_the_bound() -> None:
    backoff, delays = Backoff(), []
    for _ in range(10):
        backoff = backoff.after_crash(ran_s=0.1)
        delays.append(backoff.delay_s)
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == DELAY_S_MAX


def test_a_child_that_has_run_for_a_minute_starts_again_at_once_after_a_crash() -> None:
    backoff = Backoff(crashes_in_a_row=9).after_crash(ran_s=STEADY_S)
    assert backoff.delay_s == 0.5


def test_nothing_waits_before_the_first_start_and_a_thousand_crashes_do_not_overflow() -> None:
    assert Backoff().delay_s == 0
    assert Backoff(crashes_in_a_row=100_000).delay_s == DELAY_S_MAX
