"""Reading the reports that the monitor has stored."""

from __future__ import annotations

from streams_recovery.core.status.report import StatusReport
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog


def newest_report(recovery: RecoveryContext) -> StatusReport | None:
    """The newest report that can be read, None when there is none. Older ones may have been removed."""
    return next(AppendLog(recovery.repository, recovery.layout.status, StatusReport).readable_back(whole=False), None)
