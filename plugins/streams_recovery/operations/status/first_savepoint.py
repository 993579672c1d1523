"""The facts of an application's first savepoint: from the savepoint itself, and the estimate that the monitor makes."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.runs.kind import StartingKind
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.first_savepoint import FirstSavepoint, first_lines
from streams_recovery.core.status.savepoint_detail import SavepointDetail, savepoint_detail
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import PublishedSavepoint
from streams_recovery.operations.status.cluster import cluster_facts
from streams_recovery.operations.status.estimate import estimate_of
from streams_recovery.operations.status.stored import ArchiveSeen

LOGGER = logger("streams_recovery.operations.status.first_savepoint")


def first_savepoint(recovery: RecoveryContext, savepoint_id: str) -> FirstSavepoint | None:
    """The savepoint, if it is the application's only one; else None."""
    if tuple(recovery.savepoints.ids()) != (savepoint_id,):
        return None
    manifest = recovery.savepoints.outline(savepoint_id)
    return first_of(recovery.config, savepoint_detail(manifest), _estimate(recovery, manifest))


def first_of(config: ApplicationConfig, detail: SavepointDetail, estimate: Estimate | None) -> FirstSavepoint:
    """The first savepoint of the application, and how it is tried there."""
    drill = config.drill
    return FirstSavepoint(
        name=config.name,
        detail=detail,
        estimate=estimate,
        drills=None if drill is None else _schedule(drill.schedule, enabled=drill.enabled),
        can_drill=isinstance(config.runs.chosen, StartingKind),
    )


def savepoint_lines(recovery: RecoveryContext, published: PublishedSavepoint) -> Iterator[str]:
    """What a person is told of a savepoint that was taken, a line each: of the first one more."""
    yield published.text(recovery.config.unsaved_outputs)
    try:
        first = first_savepoint(recovery, published.savepoint_id)
    except RecoveryError as error:
        LOGGER.warning("whether %s is the first savepoint is not known: %s", published.savepoint_id, error.reason)
        return
    yield from () if first is None else first_lines(first)


def _estimate(recovery: RecoveryContext, manifest: Manifest) -> Estimate | None:
    try:
        return estimate_of(recovery, manifest, cluster_facts(recovery, manifest, ArchiveSeen(saved=manifest)))
    except RecoveryError as error:
        # The savepoint is there, whatever cannot be said of it.
        LOGGER.warning("how long a restore of %s takes is not known: %s", recovery.application_id, error.reason)
        return None


def _schedule(schedule: str | None, *, enabled: bool) -> str:
    by_hand = "by hand, which nothing schedules: once a week is usual"
    return f"which its schedule begins too ({schedule})" if schedule and enabled else by_hand
