"""Waiting for a cluster or an application to reach a state, always with an end; and waiting between records, so that a load keeps to its limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from streams_recovery.core.escaping import logger
from streams_recovery.core.written import NumberBounds

T = TypeVar("T")
LOGGER = logger("streams_recovery.core.waiting")
NOTICE_SECONDS: Final = 25.0
_WORTH_SAYING_SECONDS: Final = 5.0
# From the end of a process of Airflow to the scheduler that has heard of it.
HEARD_SECONDS: Final = 5.0
# Unused capacity of at most this time may be made up for, so that a short stall of the broker costs nothing.
BURST_SECONDS: Final = 1.0
# The size of one step in time, so that the broker sees an even flow.
STEP_SECONDS: Final = 0.1


class WaitNotice:
    """Tells a logger every ``NOTICE_SECONDS`` what is waited for: a wait that says nothing looks like one that hangs. ``what`` completes the sentence
    "Waiting for ...", and with none nothing is said.
    """

    def __init__(self, what: str, *, clock: Callable[[], float] = time.monotonic, log: Callable[..., object] = LOGGER.info) -> None:
        self._what = what
        self._log = log
        self._clock = clock
        self._began = self._said = clock()

    def waiting(self, message: str = "", *, limit: float | None = None) -> None:
        """Tell that it is still waited, with ``message`` on the present state. ``limit`` is when it is given up, by the same clock."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Limits of whatever moves records, however many tasks it has: records, and bytes of their keys and values, per second. Null is no limit."""

    records_per_second: Annotated[float, NumberBounds(least=1, most=10**9, whole=True)] | None = None
    bytes_per_second: Annotated[float, NumberBounds(least=1, most=10**12, whole=True)] | None = None

    def share(self, records: float, payload: float) -> RateLimits:
        """The share of both limits for one of several workers. ``records`` and ``payload`` are its fractions of the whole work (0 to 1). With shares
        in proportion to their work all workers end together, and the shares add up to the limit.
        """
        return RateLimits(
            records_per_second=None if self.records_per_second is None else self.records_per_second * records,
            bytes_per_second=None if self.bytes_per_second is None else self.bytes_per_second * payload,
        )


class Meter:
    """One limit. The total since the start never exceeds the limit times the elapsed time. In any span of time, the amount never exceeds the limit
    times the span plus one burst. A caller that always continues at once gets the whole limit.
    """

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._due = clock()

    def wait(self, amount: float) -> float:
        """Seconds to wait before sending ``amount``. An amount larger than a second's worth waits for the time that it takes."""
        now = self._clock()
        self._due = max(self._due, now - BURST_SECONDS) + amount / self._rate
        return max(0.0, self._due - now)


class Pace:
    """Both limits of one worker."""

    def __init__(self, throttle: RateLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._throttle = throttle
        self._records = _meter(throttle.records_per_second, clock)
        self._bytes = _meter(throttle.bytes_per_second, clock)

    def rows_at_once(self, rows: int, payload: int) -> int:
        """Number of rows that make one step, of ``rows`` with ``payload`` bytes in total. At least 1."""
        limits = [float(rows)]
        if self._throttle.records_per_second is not None:
            limits.append(self._throttle.records_per_second * STEP_SECONDS)
        if self._throttle.bytes_per_second is not None and payload:
            limits.append(self._throttle.bytes_per_second * STEP_SECONDS * rows / payload)
        return max(1, int(min(limits)))

    def wait(self, records: int, payload: int) -> float:
        """Seconds to wait before sending these."""
        by_records = self._records.wait(records) if self._records else 0.0
        by_bytes = self._bytes.wait(payload) if self._bytes else 0.0
        return max(by_records, by_bytes)


def _meter(rate: float | None, clock: Callable[[], float]) -> Meter | None:
    return None if rate is None else Meter(rate, clock=clock)
