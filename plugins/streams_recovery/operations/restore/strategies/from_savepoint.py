"""All that a savepoint holds, as it is: one by its id, or the newest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.forms import CONFIRM, SAVEPOINT
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import ALLOW_AHEAD, ALLOW_DAMAGED, COMPARE_KEYS, DELETE, OFFSETS, REASON, REPLACE, SAFETY
from streams_recovery.core.words import LATEST
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import check_state, require_label, require_state
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy, named, named_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class FromSavepoint(RestoreStrategy):
    """Restore a savepoint. ``source`` is the application id of the savepoint, empty for the application's own. ``savepoint`` is an id, or
    ``latest``: the newest ``exact`` one, or the newest of any label with ``allow_ahead``. Inputs that are gone go on with what was archived behind it, up to
    ``archive_entry``: see ``RestoreSource``.
    """

    KIND: ClassVar = "from_savepoint"
    DAG: ClassVar = "streams_restore_full"
    COMMAND: ClassVar = "restore"
    FORM: ClassVar = (SAVEPOINT, ALLOW_AHEAD, ALLOW_DAMAGED, REPLACE, DELETE, SAFETY, OFFSETS, COMPARE_KEYS, CONFIRM, REASON)
    source: str = ""
    savepoint: str = LATEST
    allow_ahead: bool = False
    allow_damaged: bool = False
    offsets: OffsetStrategy = EXACT
    archive_entry: int | None = None

    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """The savepoint to restore. Raises what ``choose`` raises, and ``Refused`` where the configuration says that the application is brought to a moment."""
        if recovery.config.restore.time_window_end is not None:
            raise Refused(
                "restore.time_window_end is set, and this restore would bring back all of a savepoint",
                next_step="restore to that moment (DAG streams_restore_pitr, option --as-of), or remove it from the configuration",
            )
        return RestoreSource(manifest=choose(recovery, self), offsets=self.offsets, archive_entry=self.archive_entry)

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        entry = named_entry(self.archive_entry, planned)
        return replace(self, savepoint=named(self.savepoint, planned.savepoint_id), archive_entry=entry)


def choose(recovery: RecoveryContext, request: FromSavepoint) -> Manifest:
    """The savepoint that is asked for. Raises ``NotFound``, ``Refused`` for one without state, ``NotExact`` for one whose label was not allowed,
    and ``Damaged`` when its manifest is not the one that was published, or a file that is needed is missing or has another size.
    """
    store = recovery.savepoints_of(request.source or recovery.application_id)
    manifest = _newest(recovery, request) if request.savepoint == LATEST else store.read(request.savepoint)
    require_state(recovery, manifest)
    require_label(manifest, allow_ahead=request.allow_ahead, allow_damaged=request.allow_damaged)
    check_state(recovery, store, manifest)
    return manifest


def _newest(recovery: RecoveryContext, request: FromSavepoint) -> Manifest:
    source = request.source or recovery.application_id
    store, label = recovery.savepoints_of(source), None if request.allow_ahead else Consistency.EXACT
    # Where there are only minimal ones, the caller refuses the newest of them, which says more than that there is none.
    newest = store.latest(label, Profile.FULL) or store.latest(label)
    if newest is None:
        raise NotFound(
            f"{source} has no {'' if request.allow_ahead else 'exact '}savepoint in {recovery.repository.location}",
            next_step="take one first, or check the storage section of the configuration",
            application_id=recovery.application_id,
        )
    return newest
