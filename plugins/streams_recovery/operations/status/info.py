"""An application at a glance. Asks the repository only, so it answers when the cluster is lost."""

from __future__ import annotations

from typing import Final

from streams_recovery.config.pauses import longest_pause
from streams_recovery.core.status.info import ApplicationInfo, info_of_report, info_of_repository
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.log import newest

# Without an objective a savepoint counts as late when a second one is due.
_LATE: Final = 2


def application_info(recovery: RecoveryContext) -> ApplicationInfo:
    """What the newest report of the monitor says; without one what the savepoints say. Raises what reading the repository raises."""
    now, report = recovery.clock(), newest(recovery.repository, recovery.layout)
    if report is not None:
        return info_of_report(report, now)
    interval = longest_pause(recovery.config.backup.schedule)
    return info_of_repository(
        recovery.config.name,
        recovery.application_id,
        recovery.savepoints.summaries(),
        now=now,
        objective=None if interval is None else _LATE * interval,
    )
