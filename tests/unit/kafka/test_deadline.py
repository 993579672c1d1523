from __future__ import annotations

from streams_recovery.kafka.deadline import Deadline


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_pauses_end_exactly_at_the_deadline() -> None:
    clock = Clock()
    deadline = Deadline(1.0, clock=clock, sleep=clock.sleep)
    assert [deadline.pause(0.4) for _ in range(4)] == [True, True, True, False]
    assert clock.now == 101.0
    assert deadline.remaining == 0


def test_time_that_passes_elsewhere_counts() -> None:
    clock = Clock()
    deadline = Deadline(1.0, clock=clock, sleep=clock.sleep)
    clock.now += 5
    assert not deadline.pause()
    assert clock.slept == []
    assert deadline.remaining == 0


def test_no_time_is_no_pause() -> None:
    clock = Clock()
    assert not Deadline(0, clock=clock, sleep=clock.sleep).pause()
    assert clock.slept == []
