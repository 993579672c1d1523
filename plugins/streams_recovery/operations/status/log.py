"""The reports of the monitor in the repository: an append log of which only the newest entries are kept."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.status.report import StatusReport
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.operations.status.log")

KEPT: Final = 12
# Where nothing may be removed, entries stay: then one an hour has to do.
_MOST: Final = 4 * KEPT
_SELDOM_MS: Final = 3_600_000


def status_log(repository: Repository, layout: Layout) -> AppendLog[StatusReport]:
    """The log of an application's reports."""
    return AppendLog(repository, layout.status, StatusReport)


def newest(repository: Repository, layout: Layout) -> StatusReport | None:
    """The newest report that can be read, None when there is none. One of another release may not be readable: the next look replaces it."""
    return next(status_log(repository, layout).readable_back(whole=False), None)


def record(recovery: RecoveryContext, report: StatusReport, earlier: StatusReport | None) -> bool:
    """Store a report, and remove old ones. False when it was left out, because many are there that could not be removed and the ``earlier`` one is not an
    hour old.
    """
    log = status_log(recovery.repository, recovery.layout)
    there = sum(1 for _ in recovery.repository.keys(recovery.layout.status))
    if there > _MOST and earlier is not None and report.taken_at - earlier.taken_at < _SELDOM_MS:
        return False
    log.append(report, whole=False)
    shorten(log)
    return True


def shorten(log: AppendLog[StatusReport]) -> None:
    """Remove all but the newest entries, as far as that is allowed."""
    try:
        log.prune(KEPT, whole=False)
    except RecoveryError as error:
        LOGGER.warning("old reports of the monitor stay: %s", error.reason)
