"""Values over time, thinner the older they are, so that a year of looks fits into one small object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streams_recovery.core.status.report import HistoryPoint

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
# Up to which age (ms) one point is kept of each so many milliseconds.
TIERS: Final = ((3 * _HOUR, 5 * _MINUTE), (2 * _DAY, 30 * _MINUTE), (14 * _DAY, 3 * _HOUR), (366 * _DAY, _DAY))
# Each tier may have begun a step, and its last one may not be over; and the newest point is always there.
MOST: Final = sum(age // step + 2 for age, step in TIERS) + 1


def thinned(points: Iterable[HistoryPoint], *, now: int) -> tuple[HistoryPoint, ...]:
    """These points in the order of time, the first of each step of their tier, and the newest one. Those that are too old go, and those of a time that has
    not come.
    """
    ordered = sorted((point for point in points if point.at <= now), key=lambda point: point.at)
    kept: dict[tuple[int, int], HistoryPoint] = {}
    for point in ordered:
        step = next((step for age, step in TIERS if now - point.at <= age), None)
        if step is not None:
            kept.setdefault((step, point.at // step), point)
    found = sorted(kept.values(), key=lambda point: point.at)
    return (*found, ordered[-1]) if ordered and (not found or found[-1].at < ordered[-1].at) else tuple(found)
