"""From which measured value on something is a finding. Times in seconds, growth as a share a day: 0.5 is half as much again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOUR: Final = 3_600.0
DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``newest_age`` and ``recovery_time`` are the objectives, None where there is none. Without the first one ``late_after`` counts, which follows from
    the schedule of savepoints; None where they are taken by hand. ``docs`` is where the pages on findings are. docs/configuration.md explains the others.
    """

    newest_age: float | None = None
    recovery_time: float | None = None
    late_after: float | None = None
    changelog_growth: float = 0.5
    changelog_bytes: int | None = None
    repartition_bytes: int = 10 << 30
    growth_from_bytes: int = 1 << 30
    disk_full_within: float = 2 * DAY
    disk_free: float = 0.1
    retention_margin: float = 6 * HOUR
    lag_records: int | None = None
    lag_growth: int = 100_000
    transaction_age: float = HOUR / 4
    hold_age: float = 6 * HOUR
    lock_age: float = 6 * HOUR
    restore_time: float = 4 * HOUR
    quarantine_age: float = DAY
    repository_growth: float = 0.5
    overdue_after: float = DAY
    unseen_after: float = HOUR / 6
    docs: str = "docs"
