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
