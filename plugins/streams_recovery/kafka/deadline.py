"""Waiting with an end."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """A moment ``seconds`` from now. ``clock`` (seconds, never going back) and ``sleep`` are given by tests."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + seconds

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - self._clock())

    def pause(self, seconds: float = 0.1) -> bool:
        """Sleep for ``seconds`` or what is left of the time. False, and no sleep, when nothing is left: time to give up."""
        left = self.remaining
        if left <= 0:
            return False
        self._sleep(min(seconds, left))
        return True
