"""Waiting as long as there is progress.

A limit is never exceeded, is used up, and is divided without loss. Time is a number here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import waiting
from streams_recovery.core.waiting import BURST_SECONDS, Meter, Pace, RateLimits, WaitNotice, pause, poll, poll_falling, while_falling


def measured(values: Iterator[int]) -> int:
    return while_falling(lambda: next(values), patience=0.2, interval=0.01)


def test_what_keeps_falling_is_waited_for_longer_than_the_patience() -> None:
    began = time.monotonic()
    assert measured(iter([*range(60, 0, -1), 0])) == 0
    assert time.monotonic() - began > 0.5


def test_what_stands_still_or_grows_is_given_up_with_the_least_that_was_left() -> None:
    assert measured(itertools.chain([5, 3], itertools.repeat(3))) == 3
    assert measured(itertools.count(7)) == 7


def test_nothing_to_wait_for_takes_one_look() -> None:
    assert measured(iter([0])) == 0


def looked(numbers: Iterator[int], *, answers_at: int) -> bool | None:
    looks = itertools.count(1)
    return poll_falling(lambda: (next(looks) >= answers_at or None, next(numbers)), patience=0.2, interval=0.01)


def test_an_answer_is_waited_for_as_long_as_the_work_before_it_gets_less() -> None:
    began = time.monotonic()
    assert looked(itertools.count(0, -1), answers_at=60)
    assert time.monotonic() - began > 0.5


def test_work_that_begins_late_or_grows_in_between_is_waited_for_too() -> None:
    saw = [number for start in (100, 200, 300) for number in range(start, start - 15, -1)]
    assert looked(itertools.chain([0], saw), answers_at=len(saw))


def test_without_progress_no_answer_is_the_answer() -> None:
    assert looked(itertools.repeat(7), answers_at=100_000) is None
    assert looked(itertools.count(7), answers_at=100_000) is None


class Clock:
    """Shows the time that it is set to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_a_wait_says_what_for_and_how_it_stands_every_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "streams_recovery.core.waiting")
    clock = Clock()
    notice = WaitNotice("records to restore", clock=clock)
    for second in range(0, 61, 5):
        clock.now = float(second)
        notice.waiting(f"{100 - second} are left", limit=120.0)
    assert caplog.messages == [
        "Waiting for records to restore for 25 s: 75 are left, given up after 95 s more",
        "Waiting for records to restore for 50 s: 50 are left, given up after 70 s more",
    ]
    WaitNotice("", clock=clock).waiting("nothing")
    assert len(caplog.messages) == 2


@pytest.mark.parametrize(
    "wait",
    [
        lambda: poll(lambda: None, seconds=0.1, interval=0.02, what="it", message=lambda: "7 are left"),
        lambda: while_falling(lambda: 7, patience=0.1, interval=0.02, what="it"),
        lambda: poll_falling(lambda: (None, 7), patience=0.1, interval=0.02, what="it"),
    ],
)
def test_every_wait_gives_notice(wait: Callable[[], object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "streams_recovery.core.waiting")
    monkeypatch.setattr(waiting, "NOTICE_SECONDS", 0.0)
    wait()
    assert caplog.messages
    assert all(said.startswith("Waiting for it for 0 s: 7 are left, given up after 0 s more") for said in caplog.messages)


def test_a_long_pause_says_what_for_and_a_short_one_does_not(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "streams_recovery.core.waiting")
    pause(0.01, "a commit")
    assert caplog.messages == []
    monkeypatch.setattr(waiting, "_WORTH_SAYING_SECONDS", 0.0)
    pause(0.01, "a commit")
    assert caplog.messages == ["Waiting for a commit, 0 s more"]


RATES = st.floats(0.5, 1e6)


def let_go(rate: float, asked: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Moments, counted from the beginning, at which amounts went: each asked for so many seconds after the one before it went."""
    clock = Clock(1000.0)
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
    step = Pace(RateLimits(records_per_second=records, bytes_per_second=size)).rows_at_once(rows, payload)
    assert 1 <= step <= rows
    assert records is None or step <= max(1, records * 0.1)


def test_the_stricter_limit_counts() -> None:
    clock = Clock(1000.0)
    assert Pace(RateLimits(records_per_second=10, bytes_per_second=100), clock=clock).wait(10, 500) == pytest.approx(5)
    assert Pace(RateLimits(records_per_second=10, bytes_per_second=None), clock=clock).wait(10, 500) == pytest.approx(1)
    assert Pace(RateLimits(records_per_second=None, bytes_per_second=None), clock=clock).wait(10, 500) == 0


@given(work=st.lists(st.integers(1, 1000), min_size=1, max_size=20), rate=RATES)
def test_shares_that_fit_the_work_end_together_and_sum_up_to_the_limit(work: list[int], rate: float) -> None:
    whole = sum(work)
    limits = [RateLimits(records_per_second=rate, bytes_per_second=None).share(part / whole, 1).records_per_second or 0 for part in work]
    assert sum(limits) == pytest.approx(rate)
    assert all(part / limit == pytest.approx(whole / rate) for part, limit in zip(work, limits, strict=True))
