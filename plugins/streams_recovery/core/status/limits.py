"""Limits of the monitor: from which values on something is a finding, and which findings people are told of. Every configuration has them, so they need nothing
of what is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.written import Duration, NumberBounds

HOUR: Final = 3_600.0
DAY: Final = 86_400.0
# Seconds after which people hear again of what lasts, whatever is configured.
MOST_SILENT: Final = 604_800.0
# Seconds for which it must not be found until people hear that it is over: what comes and goes is told once.
OVER_AFTER: Final = HOUR / 6

# Bytes, or records.
Count = Annotated[int, NumberBounds(least=0, most=1 << 60)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorLimits:
    """Values from which on something is a finding, and that depend on how large the application and its disks are. Null turns a limit off."""

    changelog_bytes: Count | None = None
    repartition_bytes: Count = 10 << 30
    disk_free: Annotated[float, NumberBounds(least=0, below=1)] = 0.1
    retention_margin: Duration = 6 * HOUR
    lag_records: Count | None = None
    lag_growth: Count = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(MonitorLimits):
    """All limits, those too that are the same for every application, and what was promised: ``newest_age``, ``recovery_time`` and ``loss`` are the objectives,
    None without one. If there is no ``newest_age``, ``late_after`` counts, which follows from the schedule of savepoints; it is None if savepoints are taken by
    hand. ``docs`` is where the pages on findings are. Growth is a share a day: 0.5 is half as much again.
    """

    newest_age: float | None
    recovery_time: float | None
    loss: float | None
    late_after: float | None
    docs: str
    changelog_growth: float = 0.5
    repository_growth: float = 0.5
    # What is smaller may grow as it likes.
    growth_from_bytes: int = 1 << 30
    disk_full_within: float = 2 * DAY
    # Brokers allow no longer transaction, unless they are told to.
    transaction_age: float = HOUR / 4
    archive_age: float = HOUR / 6
    hold_age: float = 6 * HOUR
    lock_age: float = 6 * HOUR
    # Where no ``recovery_time`` is promised.
    restore_time: float = 4 * HOUR
    quarantine_age: float = DAY
    overdue_after: float = DAY
    unseen_after: float = HOUR / 6


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy:
    """Findings less severe than ``severity`` are no alerts. One is told again every ``reminder`` seconds, after ``MOST_SILENT`` at the latest, and is over
    when it was not found for ``over_after`` seconds.
    """

    severity: Severity
    reminder: float | None
    over_after: float = OVER_AFTER
