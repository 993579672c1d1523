"""Waiting for a cluster or an application to reach a state, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from streams_recovery.core.escaping import logger

T = TypeVar("T")

LOGGER = logger("streams_recovery.core.waiting")
NOTICE_SECONDS: Final = 25.0
_WORTH_SAYING_SECONDS: Final = 5.0
# From the end of a process of Airflow to the scheduler that has heard of it.
HEARD_SECONDS: Final = 5.0


class WaitNotice:
    """Says what is waited for, every ``NOTICE_SECONDS``, to a logger: a wait that says nothing looks like one that hangs. ``what`` completes the sentence
    "Waiting for ...", and with none nothing is said.
    """

    def __init__(self, what: str, *, clock: Callable[[], float] = time.monotonic, log: Callable[..., object] = LOGGER.info) -> None:
        self._what = what
        self._log = log
        self._clock = clock
        self._began = self._said = clock()

    def waiting(self, message: str = "", *, limit: float | None = None) -> None:
        """Still waiting; ``message`` is how it stands. ``limit`` is when it is given up, by the same clock."""
        now = self._clock()
        if not self._what or now - self._said < NOTICE_SECONDS:
            return
        self._said = now
        left = "" if limit is None else f", given up after {max(0.0, limit - now):.0f} s more"
        self._log("Waiting for %s for %.0f s%s%s", self._what, now - self._began, f": {message}" if message else "", left)


def pause(seconds: float, what: str) -> None:
    """Sleep, and say what for, again and again where it takes long: ``what`` completes the sentence "Waiting for ..."."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if seconds >= _WORTH_SAYING_SECONDS:
            LOGGER.info("Waiting for %s, %.0f s more", what, left)
        time.sleep(min(left, NOTICE_SECONDS))


def poll(
    check: Callable[[], T | None], *, seconds: float, interval: float = 0.1, what: str = "", message: Callable[[], str] = str
) -> T | None:
    """The first answer of ``check`` that is not None, or None when the time is up. Asks at least once, and once more at the very end. ``what`` is waited
    for, as people are told, with what ``message`` says of the last look.
    """
    notice, deadline = WaitNotice(what), time.monotonic() + seconds
    while True:
        last_try = time.monotonic() >= deadline
        answer = check()
        if answer is not None or last_try:
            return answer
        notice.waiting(message(), limit=deadline)
        time.sleep(min(interval, max(0.0, deadline - time.monotonic())))


def while_falling(measure: Callable[[], int], *, patience: float, interval: float = 0.5, what: str = "") -> int:
    """Wait until ``measure`` is 0, for as long as it keeps falling. Returns 0, or what is left when it has not fallen for ``patience`` seconds. ``what`` is
    waited for, as people are told.
    """
    notice, least, deadline = WaitNotice(what), measure(), time.monotonic() + patience
    while least > 0 and time.monotonic() < deadline:
        notice.waiting(f"{least:,} are left", limit=deadline)
        time.sleep(interval)
        left = measure()
        if left < least:
            least, deadline = left, time.monotonic() + patience
    return least


def poll_falling(look: Callable[[], tuple[T | None, int]], *, patience: float, interval: float = 0.5, what: str = "") -> T | None:
    """The first answer of ``look`` that is not None; or None when the number beside it has not fallen, from one look to the next, for ``patience``
    seconds. A number that rises is no progress, and no harm: work may show only once it begins. ``what`` is as for ``while_falling``.
    """
    notice, (answer, before) = WaitNotice(what), look()
    deadline = time.monotonic() + patience
    while answer is None and time.monotonic() < deadline:
        notice.waiting(f"{before:,} are left" if before else "", limit=deadline)
        time.sleep(interval)
        answer, left = look()
        if left < before:
            deadline = time.monotonic() + patience
        before = left
    return answer
