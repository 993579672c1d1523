"""Waiting for a cluster or an application to reach a state, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def poll(check: Callable[[], T | None], *, seconds: float, interval: float = 0.1) -> T | None:
    """The first answer of ``check`` that is not None, or None when the time is up. Asks at least once, and once more at the very end."""
    deadline = time.monotonic() + seconds
    while True:
        last_try = time.monotonic() >= deadline
        answer = check()
        if answer is not None or last_try:
            return answer
        time.sleep(min(interval, max(0.0, deadline - time.monotonic())))


def while_falling(measure: Callable[[], int], *, patience: float, interval: float = 0.5) -> int:
    """Wait until ``measure`` is 0, for as long as it keeps falling. Returns 0, or what is left when it has not fallen for ``patience`` seconds."""
    least, deadline = measure(), time.monotonic() + patience
    while least > 0 and time.monotonic() < deadline:
        time.sleep(interval)
        left = measure()
        if left < least:
            least, deadline = left, time.monotonic() + patience
    return least


def poll_falling(look: Callable[[], tuple[T | None, int]], *, patience: float, interval: float = 0.5) -> T | None:
    """The first answer of ``look`` that is not None; or None when the number beside it has not fallen, from one look to the next, for ``patience``
    seconds. A number that rises is no progress, and no harm: work may show only once it begins.
    """
    answer, before = look()
    deadline = time.monotonic() + patience
    while answer is None and time.monotonic() < deadline:
        time.sleep(interval)
        answer, left = look()
        if left < before:
            deadline = time.monotonic() + patience
        before = left
    return answer
