"""Waiting as long as there is progress."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from streams_recovery.core.waiting import poll_falling, while_falling


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
