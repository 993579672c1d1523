"""What was there before a restore, from the safety savepoint that it took."""

from __future__ import annotations

from streams_recovery.core.errors import NotFound
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.request import LATEST, Undo
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.savepoint_checks import check_state, require_label, require_state
from streams_recovery.operations.restore.source import RestoreSource

_NAMED = 5


def resolve(recovery: RecoveryContext, request: Undo) -> RestoreSource:
    """What to restore. Raises ``NotFound`` when no safety savepoint was taken before that restore, ``NotExact`` and ``Damaged`` for one that cannot be used."""
    manifest = _taken_before(recovery, request.restore_id)
    require_state(recovery, manifest)
    require_label(manifest, allow_ahead=request.allow_ahead, allow_damaged=request.allow_damaged)
    check_state(recovery, recovery.safety, manifest)
    return RestoreSource(manifest=manifest)


def _taken_before(recovery: RecoveryContext, restore_id: str) -> Manifest:
    if restore_id == LATEST:
        found = recovery.safety.newest()
    else:
        saved = recovery.safety.published_by_run(restore_id)
        found = None if saved is None else recovery.safety.read(saved)
    if found is None:
        known = ", ".join(recovery.safety.read(one).provenance.run_id for one in recovery.safety.ids()[-_NAMED:]) or "none"
        raise NotFound(
            f"no safety savepoint was taken before restore {restore_id} of {recovery.application_id}; restores that have one: {known}",
            next_step="choose one of those; a restore that found nothing to save, was told to skip it, or followed one that failed has none",
            restore=restore_id,
        )
    return found
