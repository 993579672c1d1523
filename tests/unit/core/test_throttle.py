"""A limit is never exceeded, is used up, and is divided without loss. Time is a number here."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.throttle import BURST_SECONDS, Meter, Pace, Throttle

RATES = st.floats(0.5, 1e6)


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def let_go(rate: float, asked: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Moments, counted from the beginning, at which amounts went: each asked for so many seconds after the one before it went."""
    clock = Clock()
    meter = Meter(rate, clock=clock)
    gone = []
    for idle, amount in asked:
        clock.now += idle
        clock.now += meter.wait(amount)
        gone.append((clock.now - 1000.0, amount))
    return gone


@given(rate=RATES, asked=st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 1e6)), min_size=1, max_size=40))
def test_no_span_of_time_sees_more_than_the_limit_and_one_burst(rate: float, asked: list[tuple[float, float]]) -> None:
    gone = let_go(rate, asked)
    assert sum(amount for _, amount in gone) <= rate * gone[-1][0] * (1 + 1e-6) + 1e-6
    for first in range(len(gone)):
        total = sum(amount for _, amount in gone[first + 1 :])
        span = gone[-1][0] - gone[first][0]
        assert total <= rate * (span + BURST_SECONDS) * (1 + 1e-6) + 1e-6


@given(rate=RATES, amounts=st.lists(st.floats(0.1, 1e6), min_size=1, max_size=40))
def test_who_asks_at_once_gets_the_whole_limit(rate: float, amounts: list[float]) -> None:
    gone = let_go(rate, [(0.0, amount) for amount in amounts])
    assert gone[-1][0] == pytest.approx(sum(amounts) / rate, rel=1e-6)
    assert all(earlier <= later for (earlier, _), (later, _) in pairwise(gone))


def test_a_short_stall_is_made_up_for_and_a_long_one_is_not() -> None:
    assert let_go(10, [(0, 10), (0.5, 10), (0, 10)])[-1][0] == pytest.approx(3)
    assert let_go(10, [(0, 10), (60, 10), (0, 10)])[-1][0] == pytest.approx(1 + 60 + 1)


@given(rows=st.integers(1, 10**6), payload=st.integers(0, 10**9), records=st.none() | RATES, size=st.none() | RATES)
def test_a_step_is_at_least_a_row_and_never_more_than_there_are(rows: int, payload: int, records: float | None, size: float | None) -> None:
    step = Pace(Throttle(records_per_second=records, bytes_per_second=size)).rows_at_once(rows, payload)
    assert 1 <= step <= rows
    assert records is None or step <= max(1, records * 0.1)


def test_the_stricter_limit_counts() -> None:
    clock = Clock()
    assert Pace(Throttle(records_per_second=10, bytes_per_second=100), clock=clock).wait(10, 500) == pytest.approx(5)
    assert Pace(Throttle(records_per_second=10, bytes_per_second=None), clock=clock).wait(10, 500) == pytest.approx(1)
    assert Pace(Throttle(records_per_second=None, bytes_per_second=None), clock=clock).wait(10, 500) == 0


@given(work=st.lists(st.integers(1, 1000), min_size=1, max_size=20), rate=RATES)
def test_shares_that_fit_the_work_end_together_and_sum_up_to_the_limit(work: list[int], rate: float) -> None:
    whole = sum(work)
    limits = [Throttle(records_per_second=rate, bytes_per_second=None).share(part / whole, 1).records_per_second or 0 for part in work]
    assert sum(limits) == pytest.approx(rate)
    assert all(part / limit == pytest.approx(whole / rate) for part, limit in zip(work, limits, strict=True))
