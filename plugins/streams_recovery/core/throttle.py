"""Keeping a load below a limit: how the limit is divided, and when the next records may go."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# What was not used may be made up for within this time: a short stall of the broker then costs nothing, and no burst is longer.
BURST_SECONDS: Final = 1.0
# How much goes at once, so that the broker sees an even flow.
STEP_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Limits in records and in bytes of keys and values, per second; None is no limit."""

    records_per_second: float | None
    bytes_per_second: float | None

    def share(self, records: float, payload: float) -> Throttle:
        """The part of both limits for one of several that work at once: ``records`` and ``payload`` are its parts of all the work (0 to 1). Who
        has a share that fits its work ends together with all others, and the sum of the shares is the limit.
        """
        return Throttle(
            records_per_second=None if self.records_per_second is None else self.records_per_second * records,
            bytes_per_second=None if self.bytes_per_second is None else self.bytes_per_second * payload,
        )


class Meter:
    """One limit. What was let go since the beginning is never more than the limit times the time since then, in any span of time never more than
    the limit times the span and one burst; who always asks again at once gets the whole limit.
    """

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._due = clock()

    def wait(self, amount: float) -> float:
        """Seconds to wait before ``amount`` may go. Amounts larger than a second's worth are let go after the time they take."""
        now = self._clock()
        self._due = max(self._due, now - BURST_SECONDS) + amount / self._rate
        return max(0.0, self._due - now)


class Pace:
    """Both limits of one worker."""

    def __init__(self, throttle: Throttle, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._throttle = throttle
        self._records = _meter(throttle.records_per_second, clock)
        self._bytes = _meter(throttle.bytes_per_second, clock)

    def rows_at_once(self, rows: int, payload: int) -> int:
        """How many of ``rows`` rows with so many bytes make one step. At least 1."""
        limits = [float(rows)]
        if self._throttle.records_per_second is not None:
            limits.append(self._throttle.records_per_second * STEP_SECONDS)
        if self._throttle.bytes_per_second is not None and payload:
            limits.append(self._throttle.bytes_per_second * STEP_SECONDS * rows / payload)
        return max(1, int(min(limits)))

    def wait(self, records: int, payload: int) -> float:
        """Seconds to wait before these may go."""
        by_records = self._records.wait(records) if self._records else 0.0
        by_bytes = self._bytes.wait(payload) if self._bytes else 0.0
        return max(by_records, by_bytes)


def _meter(rate: float | None, clock: Callable[[], float]) -> Meter | None:
    return None if rate is None else Meter(rate, clock=clock)
