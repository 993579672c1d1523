"""The facts of an application's first savepoint: from the savepoint itself, and the estimate that the monitor makes."""

from __future__ import annotations

from streams_recovery.config.runs.kind import StartingKind
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.first_savepoint import FirstSavepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.cluster import cluster_facts
from streams_recovery.operations.status.estimate import estimate_of
from streams_recovery.operations.status.stored import ArchiveSeen

LOGGER = logger("streams_recovery.operations.status.first_savepoint")


def first_savepoint(recovery: RecoveryContext, savepoint_id: str) -> FirstSavepoint | None:
    """The savepoint, if it is the application's only one; else None."""
    if tuple(recovery.savepoints.ids()) != (savepoint_id,):
        return None
    manifest, drill = recovery.savepoints.outline(savepoint_id), recovery.config.drill
    estimate = _estimate(recovery, manifest)
    return FirstSavepoint(
        name=recovery.config.name,
        manifest=manifest,
        recovery_seconds=None if estimate is None else estimate.total,
        measured=0 if estimate is None else estimate.measured,
        drills=None if drill is None else _schedule(drill.schedule, enabled=drill.enabled),
        can_drill=isinstance(recovery.config.runs.chosen, StartingKind),
    )


def _estimate(recovery: RecoveryContext, manifest: Manifest) -> Estimate | None:
    try:
        return estimate_of(recovery, manifest, cluster_facts(recovery, manifest, ArchiveSeen(saved=manifest)))
    except RecoveryError as error:
        # The savepoint is there, whatever cannot be said of it.
        LOGGER.warning("how long a restore of %s takes is not known: %s", recovery.application_id, error.reason)
        return None


def _schedule(schedule: str | None, *, enabled: bool) -> str:
    by_hand = "by hand, which nothing schedules: once a week is usual"
    return f"which streams_drill does on its schedule ({schedule})" if schedule and enabled else by_hand
