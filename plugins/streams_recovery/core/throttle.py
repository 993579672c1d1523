"""Limits the rate of a load: how the limit is divided, and how long to wait before the next records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# Unused capacity of at most this time may be made up for, so that a short stall of the broker costs nothing.
BURST_SECONDS: Final = 1.0
# The size of one step in time, so that the broker sees an even flow.
STEP_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Limits in records, and in bytes of keys and values, per second. None is no limit."""

    records_per_second: float | None
    bytes_per_second: float | None

    def share(self, records: float, payload: float) -> Throttle:
        """The share of both limits for one of several workers. ``records`` and ``payload`` are its fractions of the whole work (0 to 1). With shares
        in proportion to their work all workers end together, and the shares add up to the limit.
        """
        return Throttle(
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

    def __init__(self, throttle: Throttle, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._throttle = throttle
        self._records = _meter(throttle.records_per_second, clock)
        self._bytes = _meter(throttle.bytes_per_second, clock)

    def rows_at_once(self, rows: int, payload: int) -> int:
        """How many of ``rows`` rows, with ``payload`` bytes in total, make one step. At least 1."""
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
