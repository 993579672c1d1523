"""Facts of an application in the repository besides its savepoints: runs, lock, restores, checks, drills, holds. Reads only, and takes no lock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from streams_recovery.core.errors import Damaged, EntryUnreadable
from streams_recovery.core.names import is_name
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.ownership import OwnershipEntry, Role, role_of
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.repository.retention import DeletionOutlook, Pins
from streams_recovery.core.repository.seal import forged_records
from streams_recovery.core.restore.point_in_time import QuarantineEntry, quarantine_of
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.status.facts import (
    CheckState,
    HoldState,
    LockState,
    OwnershipState,
    QuarantineState,
    QuiesceState,
    RepositoryFacts,
    SavepointRun,
)
from streams_recovery.core.status.report import SavepointSummary, come_by, newest_exact
from streams_recovery.core.topic_holds.log import HoldPurpose
from streams_recovery.core.words import is_ahead, moment_of
from streams_recovery.operations import quiesce_record, topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.announce import deletion_outlook
from streams_recovery.operations.maintenance.check import newest_check
from streams_recovery.operations.ownership import ownership_log
from streams_recovery.operations.restore.in_place import quarantine_log
from streams_recovery.operations.second_place import see_encryption, see_second_place
from streams_recovery.operations.status.savepoints import Savepoints, began, ids_below, lock_now, lock_records, open_restores
from streams_recovery.operations.status.stored import ArchiveSeen
from streams_recovery.operations.unfinished import restores_of
from streams_recovery.storage.append_log import AppendLog

# Quarantines.
_NEWEST: Final = 20
_SAVEPOINT: Final = "savepoint "


def savepoints_of_the_past(recovery: RecoveryContext, found: Savepoints) -> list[SavepointSummary]:
    """Savepoints whose time has come. One of a later time would have no age until then."""
    return come_by(found.summaries, recovery.clock())


def repository_facts(recovery: RecoveryContext, found: Savepoints, seen: ArchiveSeen) -> RepositoryFacts:
    """The facts that rules judge, with the archive as far as it was ``seen``. Raises what reading raises."""
    come = savepoints_of_the_past(recovery, found)
    newest = come[-1] if come else None
    exact = newest_exact(come)
    records = lock_records(recovery)
    lock = lock_now(recovery, records)
    return RepositoryFacts(
        newest=newest,
        newest_exact=exact,
        damaged=found.damaged,
        ahead=(
            *sorted({*recovery.savepoints.ahead(), *(one.savepoint_id for one in found.summaries if one not in come)}),
            *(one for one in sorted(restores_of(recovery)) if is_ahead(one, recovery.clock())),
        ),
        lost_with_cluster=found.publications[exact.savepoint_id].lost_with_cluster if exact is not None else (),
        last_run=_last_run(records, found.publications.values(), lock),
        lock=lock,
        restores=open_restores(recovery, lock),
        check=_check(recovery),
        drill=_drill(recovery),
        quarantines=_quarantines(recovery, found.pins),
        holds=_holds(recovery),
        quiesce=_quiesce(recovery),
        deletion=_deletion(recovery),
        ownership=_ownership(recovery),
        leaving={one.savepoint_id: one.leaves_at for one in found.summaries if one.leaves_at is not None},
        sealed=recovery.repository.seals is not None,
        archive=seen.status,
        archive_news=seen.news,
        second_place=see_second_place(recovery),
        encryption=see_encryption(recovery),
        # Last: all that was read by then was asked whose it is.
        forged=forged_records(recovery.repository.forged),
        forged_count=len(recovery.repository.forged),
    )


def _last_run(records: list[LockRecord], publications: Iterable[Publication], lock: LockState | None) -> SavepointRun | None:
    newest = next((one for one in records if one.owner.startswith(_SAVEPOINT)), None)
    if newest is None:
        return None
    run = newest.owner.removeprefix(_SAVEPOINT)
    return SavepointRun(
        run=run,
        began_at=began(newest, records),
        over=lock is None or lock.owner != newest.owner,
        savepoint_id=next((one.savepoint_id for one in publications if one.run_id == run), None),
    )


def _check(recovery: RecoveryContext) -> CheckState | None:
    newest = newest_check(recovery)
    if newest is None:
        return None
    check_id, report = newest
    return CheckState(
        check_id=check_id,
        at=moment_of(check_id),
        causes=tuple(cause.value for cause in report.causes),
        savepoints=tuple(sorted({name for found in report.findings for name in found.savepoints})),
    )


def _drill(recovery: RecoveryContext) -> DrillEntry | None:
    return next(AppendLog(recovery.repository, recovery.layout.drills, DrillEntry).readable_back(whole=False), None)


def _quarantines(recovery: RecoveryContext, marks: Pins) -> tuple[QuarantineState, ...]:
    """Quarantines that still wait. One whose savepoint its restore no longer pins was given up."""
    keeping = {restore_id for restores in marks.kept().values() for restore_id in restores if restore_id is not None}
    found = []
    for restore_id in sorted(ids_below(recovery, recovery.layout.quarantines) & keeping)[-_NEWEST:]:
        try:
            entries: tuple[QuarantineEntry, ...] = tuple(quarantine_log(recovery, restore_id).read_all())
        except Damaged:
            # A check tells of it.
            continue
        state = quarantine_of(restore_id, entries)
        if state.appended_at is None:
            found.append(
                QuarantineState(
                    restore_id=restore_id,
                    savepoint_id=state.savepoint_id,
                    since=entries[0].at,
                    records=sum(topic.rows for topic in state.topics),
                    begun=state.begun is not None,
                )
            )
    return tuple(found)


def _holds(recovery: RecoveryContext) -> tuple[HoldState, ...]:
    by_run: dict[tuple[str, HoldPurpose], list[tuple[int, str]]] = {}
    for held in topic_holds.outstanding(recovery):
        by_run.setdefault((held.run, held.purpose), []).append((held.since, held.hold.topic))
    return tuple(
        HoldState(
            run=run,
            of_restore=purpose is HoldPurpose.RESTORE,
            since=min(since for since, _ in topics),
            topics=tuple(sorted(topic for _, topic in topics)),
        )
        for (run, purpose), topics in by_run.items()
    )


def _quiesce(recovery: RecoveryContext) -> QuiesceState | None:
    try:
        left = quiesce_record.left(recovery)
    except Damaged:
        # Whose journal cannot be read is told of with the restores.
        return None
    return None if left is None else QuiesceState(run=left.run, mode=left.mode.value, since=left.at, instances=left.instances)


def _end_of_chain(recovery: RecoveryContext, theirs: OwnershipEntry, passed: set[str]) -> OwnershipEntry | None:
    """The entry of the application that has the outputs in the end: each upgrade of a chain retires the one before it."""
    found: OwnershipEntry | None = theirs
    while found is not None and found.role is Role.RETIRED and is_name(found.other) and found.other not in passed:
        passed.add(found.other)
        found = ownership_log(recovery.repository, Layout(found.other)).last()
    return found


def _ownership(recovery: RecoveryContext) -> OwnershipState | None:
    """The state by the two logs, as far as they can be read: an application whose log cannot be read must not look as if all were well."""
    clone = recovery.config.clone is not None
    unknown = OwnershipState(
        role=role_of(None, is_clone=clone),
        clone=clone,
        other="",
        theirs=None,
        theirs_towards="",
        run="",
        since=recovery.clock(),
        problem="",
    )
    try:
        last = recovery.ownership.last()
        if last is None:
            return None
        mine = replace(unknown, role=last.role, other=last.other, run=last.run, since=last.at)
        theirs = ownership_log(recovery.repository, Layout(last.other)).last() if is_name(last.other) else None
        if last.role is Role.RETIRED and theirs is not None:
            theirs = _end_of_chain(recovery, theirs, passed={recovery.application_id, last.other})
    except (Damaged, EntryUnreadable) as error:
        return replace(unknown, problem=error.reason)
    return mine if theirs is None else replace(mine, theirs=theirs.role, theirs_towards=theirs.other)


def _deletion(recovery: RecoveryContext) -> DeletionOutlook | None:
    try:
        return deletion_outlook(recovery)
    except Damaged:
        return None
