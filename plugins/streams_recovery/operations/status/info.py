"""An application at a glance. Asks the repository only, so it answers when the cluster is lost."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.status.info import ApplicationInfo, PresentFacts, info_of_report, info_of_repository
from streams_recovery.core.status.report import come_by, newest_exact
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.second_place import see_encryption, see_second_place
from streams_recovery.operations.status.log import newest
from streams_recovery.operations.status.stored import limits, outline, see_archive, sites_now


def application_info(recovery: RecoveryContext) -> ApplicationInfo:
    """The info of the newest status, or of the savepoints where there is no status. The objective is that of the configuration: the promise, or by the schedule
    when a second savepoint is due. Raises what reading the repository raises.
    """
    report, known = newest(recovery.repository, recovery.layout), limits(recovery)
    found = {} if report is not None else recovery.savepoints.summaries()
    whole = come_by((one for one in found.values() if isinstance(one, Publication)), recovery.clock())
    exact = newest_exact(whole) if report is None else report.newest_exact
    present = PresentFacts(
        now=recovery.clock(),
        objective=known.late_after if known.newest_age is None else known.newest_age,
        loss=known.loss,
        sealed=recovery.repository.seals is not None,
        sites=sites_now(recovery),
        archive=see_archive(recovery, outline(recovery, exact)).status,
        unsaved_outputs=recovery.config.unsaved_outputs,
    )
    name, application_id = recovery.config.name, recovery.application_id
    info = (
        info_of_report(report, present)
        if report is not None
        else info_of_repository(name, application_id, found, present, forged=recovery.repository.forged)
    )
    return replace(info, second_place=see_second_place(recovery), encryption=see_encryption(recovery))
