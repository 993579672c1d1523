"""All that a savepoint holds, as it is: one by its id, or the newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from streams_recovery.core.archive.state import at_cut
from streams_recovery.core.errors import Damaged, NotFound, Refused
from streams_recovery.core.forms import CONFIRM, SAVEPOINT
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.planned import ArchivedState
from streams_recovery.core.restore.request import (
    ALLOW_AHEAD,
    ALLOW_DAMAGED,
    COMPARE_KEYS,
    DELETE,
    NOTHING_REPLACED,
    OFFSETS,
    REPLACE,
    SAFETY,
    SOURCE,
    Safeguards,
)
from streams_recovery.core.words import LATEST
from streams_recovery.operations.archive import read_archive
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import check_state, require_label, require_state
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.operations.restore.strategies.strategy import ArchivedStrategy
from streams_recovery.operations.unfinished import replaced_since
from streams_recovery.storage.savepoints import SavepointStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FromSavepoint(ArchivedStrategy):
    """Restore a savepoint. ``source`` is the application id of the savepoint, empty for the application's own. ``savepoint`` is an id, or
    ``latest``: the newest ``exact`` one, or the newest of any label with ``allow_ahead``. Inputs that are gone go on with what was archived behind it. The
    state of the newest one is that of the newest cut behind it.
    """

    KIND: ClassVar = "from_savepoint"
    DAG: ClassVar = "streams_restore_full"
    COMMAND: ClassVar = "restore"
    source: Annotated[str, SOURCE] = ""
    savepoint: Annotated[str, SAVEPOINT] = LATEST
    allow_ahead: Annotated[bool, ALLOW_AHEAD] = False
    allow_damaged: Annotated[bool, ALLOW_DAMAGED] = False
    safeguards: Annotated[Safeguards, REPLACE, DELETE, SAFETY, CONFIRM] = NOTHING_REPLACED
    offsets: Annotated[OffsetStrategy, OFFSETS] = EXACT
    compare_keys: Annotated[bool, COMPARE_KEYS] = False

    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """The savepoint to restore. Raises what ``choose`` raises, and ``Refused`` where the configuration says that the application is brought to a moment."""
        if recovery.config.restore.time_window_end is not None:
            raise Refused(
                "restore.time_window_end is set, and this restore would bring back all of a savepoint",
                next_step="restore to that moment (DAG streams_restore_pitr, option --as-of), or remove it from the configuration",
            )
        chosen = choose(recovery, self)
        return RestoreSource(
            manifest=chosen.manifest,
            offsets=self.offsets,
            archive_entry=self.archive_entry if chosen.state is None else chosen.state.entry,
            part=SavepointPart(state=chosen.state),
            warnings=chosen.warnings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenState:
    """A savepoint to restore, at the cut ``state`` behind it, if there is one that can be used."""

    manifest: Manifest
    state: ArchivedState | None = None
    warnings: tuple[str, ...] = ()


def choose(recovery: RecoveryContext, request: FromSavepoint) -> ChosenState:
    """The requested savepoint; ``latest`` is the newest one at the newest cut that an archiver took behind it. Raises ``NotFound``, ``Refused`` for a savepoint
    without state, ``NotExact`` for a label that was not allowed, and ``Damaged`` when its manifest differs from the published one, or a needed file is missing
    or has another size.
    """
    store = recovery.savepoints_of(request.source or recovery.application_id)
    manifest = _newest(recovery, request) if request.savepoint == LATEST else store.read(request.savepoint)
    require_state(recovery, manifest)
    require_label(manifest, allow_ahead=request.allow_ahead, allow_damaged=request.allow_damaged)
    # One that is named is meant as it is, and so is that of another application.
    upto = request.state_entry if request.state_entry is not None or (request.savepoint == LATEST and not request.source) else 0
    chosen = ChosenState(manifest=manifest) if upto == 0 else _at_newest_cut(recovery, store, manifest, upto)
    if chosen.state is None:
        check_state(recovery, store, manifest)
    return chosen


def _at_newest_cut(recovery: RecoveryContext, store: SavepointStore, manifest: Manifest, upto: int | None) -> ChosenState:
    """What cannot be used of the archive is told, and the state is that of the savepoint."""
    try:
        archive = read_archive(recovery, manifest.application_id, upto=upto)
        found = at_cut(manifest, archive)
        if isinstance(found, Manifest) and upto is None and (later := replaced_since(recovery, found.captured_at)) is not None:
            # Whatever that one was made for, what was before it was given up.
            found = f"restore {later} replaced the state since"
        if isinstance(found, Manifest):
            check_state(recovery, store, found)
            return ChosenState(manifest=found, state=ArchivedState(entry=archive.recorded, at=found.captured_at))
    except Damaged as error:
        found = error.reason
    why = (
        ()
        if found is None
        else (f"the state is that of the savepoint, and not of the newest cut behind it, which cannot be used: {found}",)
    )
    return ChosenState(manifest=manifest, warnings=why)


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
