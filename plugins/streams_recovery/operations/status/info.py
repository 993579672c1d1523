"""An application at a glance. Asks the repository only, so it answers when the cluster is lost."""

from __future__ import annotations

from streams_recovery.core.status.info import ApplicationInfo, info_of_report, info_of_repository
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.log import newest
from streams_recovery.operations.status.look import limits
from streams_recovery.operations.status.sites import sites_now


def application_info(recovery: RecoveryContext) -> ApplicationInfo:
    """What the newest status says; without one what the savepoints say. The limit is that of the configuration: what was promised, or by the schedule when
    a second savepoint is due. Raises what reading the repository raises.
    """
    now, report, known = recovery.clock(), newest(recovery.repository, recovery.layout), limits(recovery)
    objective = known.late_after if known.newest_age is None else known.newest_age
    sealed, sites = recovery.repository.seals is not None, sites_now(recovery)
    if report is not None:
        return info_of_report(report, now, objective=objective, sealed=sealed, sites=sites)
    return info_of_repository(
        recovery.config.name,
        recovery.application_id,
        recovery.savepoints.summaries(),
        now=now,
        objective=objective,
        sealed=sealed,
        forged=recovery.repository.forged,
        sites=sites,
    )
