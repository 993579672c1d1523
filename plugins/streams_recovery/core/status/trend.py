"""How fast a measured value changes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Final

from streams_recovery.core.status.limits import DAY, HOUR
from streams_recovery.core.status.report import HistoryPoint

# Of a shorter time nobody can tell a trend from an hour of much work.
LEAST: Final = 6 * HOUR
WINDOW: Final = 2 * DAY
_LEAST_POINTS: Final = 3


def per_second(
    history: Iterable[HistoryPoint], value: Callable[[HistoryPoint], int | None], *, now: int, window: float = WINDOW, least: float = LEAST
) -> float | None:
    """The slope of the line through the points of the last ``window`` seconds, None when they are too few or span less than ``least`` seconds."""
    points = [(point.at / 1000, found) for point in history if point.at >= now - window * 1000 and (found := value(point)) is not None]
    if len(points) < _LEAST_POINTS or points[-1][0] - points[0][0] < least:
        return None
    moments, values = zip(*points, strict=True)
    return float(statistics.linear_regression(moments, values).slope)
