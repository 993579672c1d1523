"""How long nothing happens by a cron expression."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Final

from croniter import croniter

# Firings are looked at for more than a week, so that a weekend counts; where they are rare, this many of them.
_SECONDS: Final = 8 * 86_400
_FIRINGS: Final = 25


@cache
def longest_pause(schedule: str | None) -> float | None:
    """Seconds between two firings of a cron expression at most, None without one."""
    if schedule is None:
        return None
    firings = croniter(schedule, 0)
    moments: list[float] = []
    while len(moments) < _FIRINGS or moments[-1] - moments[0] < _SECONDS:
        moments.append(firings.get_next(float))
    return max(later - earlier for earlier, later in pairwise(moments))
