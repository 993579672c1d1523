"""What was there before a restore, from the safety savepoint that it took."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streams_recovery.core.errors import NotFound
from streams_recovery.core.forms import CONFIRM, savepoint_field
from streams_recovery.core.ids import LATEST
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import ALLOW_AHEAD, ALLOW_DAMAGED, COMPARE_KEYS, REASON, delete_field
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.savepoint_checks import check_state, require_label, require_state
from streams_recovery.operations.restore.source import RestoreSource
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy
from streams_recovery.storage.savepoints import SavepointStore

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(RestoreStrategy):
    """Restore the state from before the restore ``restore_id``, from its safety savepoint. ``latest`` is the last restore that has one."""

    KIND: ClassVar = "undo"
    DAG: ClassVar = "streams_undo"
    COMMAND: ClassVar = "undo"
    FORM: ClassVar = (
        savepoint_field(name="restore", title="Restore to undo", help="latest: the last one that took a safety savepoint"),
        delete_field("Those that appeared after the restore"),
        replace(ALLOW_AHEAD, title="Allow a safety savepoint that may count some input twice"),
        replace(ALLOW_DAMAGED, title="Allow a safety savepoint that found parts of the application gone"),
        COMPARE_KEYS,
        CONFIRM,
        REASON,
    )
    REPLACES: ClassVar = True
    restore_id: str = LATEST
    allow_ahead: bool = False
    allow_damaged: bool = False

    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """See Strategy. Raises ``NotFound`` when no safety savepoint was taken before that restore, ``NotExact`` and ``Damaged`` for one that cannot be
        used.
        """
        manifest = _taken_before(recovery, self.restore_id)
        require_state(recovery, manifest)
        require_label(manifest, allow_ahead=self.allow_ahead, allow_damaged=self.allow_damaged)
        check_state(recovery, recovery.safety, manifest)
        return RestoreSource(manifest=manifest)

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        if self.restore_id != LATEST or planned.savepoint_id is None:
            return self
        return replace(self, restore_id=recovery.safety.read(planned.savepoint_id).provenance.run_id)

    def savepoints(self, recovery: RecoveryContext, planned: RestorePlan) -> SavepointStore:
        return recovery.safety


def _taken_before(recovery: RecoveryContext, restore_id: str) -> Manifest:
    if restore_id == LATEST:
        found = recovery.safety.newest()
    else:
        saved = recovery.safety.published_by_run(restore_id)
        found = None if saved is None else recovery.safety.read(saved)
    if found is None:
        known = [recovery.safety.read(one).provenance.run_id for one in recovery.safety.ids()[-_NAMED:]]
        raise NotFound(
            f"no safety savepoint was taken before restore {restore_id} of {recovery.application_id}; restores that have one: {', '.join(known) or 'none'}",
            next_step="choose one of those; a restore that found nothing to save, was told to skip it, or followed one that failed has none",
            restore=restore_id,
            known=known,
        )
    return found
