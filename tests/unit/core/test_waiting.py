"""Waiting as long as there is progress."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from streams_recovery.core import waiting
from streams_recovery.core.waiting import WaitNotice, pause, poll, poll_falling, while_falling


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

    now = 0.0

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
