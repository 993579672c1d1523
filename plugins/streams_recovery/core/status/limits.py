"""From which measured value on something is a finding. Times in seconds, growth as a share a day: 0.5 is half as much again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOUR: Final = 3_600.0
DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``newest_age``, ``recovery_time`` and ``loss`` are the objectives, None where there is none. Without the first one ``late_after`` counts, which follows
    from the schedule of savepoints; None where they are taken by hand. ``docs`` is where the pages on findings are. docs/configuration.md explains the others.
    """

    newest_age: float | None
    recovery_time: float | None
    loss: float | None
    late_after: float | None
    changelog_growth: float
    changelog_bytes: int | None
    repartition_bytes: int
    growth_from_bytes: int
    disk_full_within: float
    disk_free: float
    retention_margin: float
    lag_records: int | None
    lag_growth: int
    transaction_age: float
    archive_age: float
    hold_age: float
    lock_age: float
    restore_time: float
    quarantine_age: float
    repository_growth: float
    overdue_after: float
    unseen_after: float
    docs: str
