"""Restores that are not over, and the history of runs: restores, drills, checks, reprocessed intervals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from streams_recovery.core.errors import Damaged, RecoveryError
from streams_recovery.core.ids import in_order, is_id, moment_of
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.repository.journal import JournalEntry, Phase, may_restart, reached
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.sandbox.interval_log import ReprocessEntry
from streams_recovery.core.status.facts import LockState, RestoreState
from streams_recovery.core.status.report import RunKind, RunSummary, StatusReport
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import newest_restore, plan_of, restores_of, unfinished_restore
from streams_recovery.storage.append_log import AppendLog

NEWEST: Final = 50
Known = dict[tuple[RunKind, str], RunSummary]
# Owners of the lock that bring an application back.
_RESTORING: Final = ("restore ", "cut-over ", "upgrade ")


def open_restores(recovery: RecoveryContext, lock: LockState | None) -> tuple[RestoreState, ...]:
    """The restore that has begun to replace topics and is not finished, and one under way."""
    running = lock is not None and lock.owner.startswith(_RESTORING)
    newest = newest_restore(recovery)
    try:
        unfinished, problem = unfinished_restore(recovery), ""
    except Damaged as error:
        unfinished, problem = newest, error.reason
    chosen = unfinished or (newest if running else None)
    if chosen is None:
        return ()
    entries = _journal(recovery, chosen)
    phase = reached(entries)
    if phase is Phase.CLOSED and not problem:
        return ()
    began_at = entries[0].at if entries else moment_of(chosen)
    destroyed = bool(problem) or chosen == unfinished
    return (RestoreState(restore_id=chosen, began_at=began_at, phase=phase.value, running=running, destroyed=destroyed, problem=problem),)


def runs(recovery: RecoveryContext, earlier: StatusReport | None, unfinished: tuple[RestoreState, ...]) -> tuple[RunSummary, ...]:
    """The newest runs, oldest first. What was over at the last look is not read again."""
    known = {(one.kind, one.run): one for one in earlier.runs if one.ended_at is not None} if earlier is not None else {}
    under_way = {one.restore_id for one in unfinished if one.running}
    found = [*_restores(recovery, known, under_way), *_drills(recovery, known), *_intervals(recovery, known), *_checks(recovery, known)]
    return tuple(sorted(found, key=lambda one: one.began_at)[-2 * NEWEST :])


def _restores(recovery: RecoveryContext, known: Known, under_way: set[str]) -> Iterator[RunSummary]:
    prefix = recovery.layout.restores
    proven = {key.removeprefix(prefix).split("/")[0] for key in recovery.repository.keys(prefix) if key.endswith("/report.json")}
    for restore_id in in_order(restores_of(recovery), recovery.clock())[-NEWEST:]:
        yield known.get((RunKind.RESTORE, restore_id)) or _restore(
            recovery, restore_id, proven=restore_id in proven, running=restore_id in under_way
        )


def _restore(recovery: RecoveryContext, restore_id: str, *, proven: bool, running: bool) -> RunSummary:
    entries = _journal(recovery, restore_id)
    phase = reached(entries)
    over = phase is Phase.CLOSED
    began_at = entries[0].at if entries else moment_of(restore_id)
    recovered = next((entry.at for entry in entries if entry.phase is Phase.RECOVERED), None)
    try:
        savepoint_id = plan_of(recovery, restore_id).savepoint_id
    except RecoveryError:
        savepoint_id = None
    return RunSummary(
        kind=RunKind.RESTORE,
        run=restore_id,
        restore_id=restore_id,
        savepoint_id=savepoint_id,
        began_at=began_at,
        # One that failed may be resumed: until it is closed nothing of it is final.
        ended_at=entries[-1].at if over else None,
        succeeded=proven if over else None if running or may_restart(phase) else False,
        outcome=_outcome(phase, proven=proven, running=running),
        rpo_seconds=None,
        rto_seconds=None if recovered is None else max(0.0, (recovered - began_at) / 1000),
        running=running and not over,
    )


def _outcome(phase: Phase, *, proven: bool, running: bool) -> str:
    if phase is Phase.CLOSED:
        return "succeeded" if proven else "given up"
    return f"in phase {phase}" if running else f"failed after {phase}"


def _drills(recovery: RecoveryContext, known: Known) -> Iterator[RunSummary]:
    log = AppendLog(recovery.repository, recovery.layout.drills, DrillEntry)
    yield from (one for (kind, _), one in known.items() if kind is RunKind.DRILL)
    entries = itertools.islice(log.readable_back(whole=False), NEWEST)
    for one in itertools.takewhile(lambda entry: (RunKind.DRILL, entry.run) not in known, entries):
        yield RunSummary(
            kind=RunKind.DRILL,
            run=one.run,
            restore_id=one.restore_id,
            savepoint_id=one.savepoint_id,
            began_at=one.began_at,
            ended_at=one.began_at + round((one.rto_seconds or 0) * 1000),
            succeeded=one.succeeded,
            outcome=one.outcome,
            rpo_seconds=one.rpo_seconds,
            rto_seconds=one.rto_seconds,
        )


def _intervals(recovery: RecoveryContext, known: Known) -> Iterator[RunSummary]:
    log = AppendLog(recovery.repository, recovery.layout.reprocessed, ReprocessEntry)
    yield from (one for (kind, _), one in known.items() if kind is RunKind.REPROCESS)
    entries = itertools.islice(log.readable_back(whole=False), NEWEST)
    for one in itertools.takewhile(lambda entry: (RunKind.REPROCESS, entry.run) not in known, entries):
        yield RunSummary(
            kind=RunKind.REPROCESS,
            run=one.run,
            restore_id=one.restore_id,
            savepoint_id=one.savepoint_id,
            began_at=one.at,
            ended_at=one.at,
            succeeded=one.succeeded,
            outcome=one.outcome,
            rpo_seconds=None,
            rto_seconds=None,
        )


def _checks(recovery: RecoveryContext, known: Known) -> Iterator[RunSummary]:
    prefix = recovery.layout.checks
    ids = {name for key in recovery.repository.keys(prefix) if is_id(name := key.removeprefix(prefix).split("/")[0])}
    for check_id in in_order(ids, recovery.clock())[-NEWEST:]:
        found = known.get((RunKind.CHECK, check_id)) or _check(recovery, check_id)
        if found is not None:
            yield found


def _check(recovery: RecoveryContext, check_id: str) -> RunSummary | None:
    verdict = next(AppendLog(recovery.repository, recovery.layout.check(check_id), CheckReport).readable_back(whole=False), None)
    if verdict is None:
        return None
    at = moment_of(check_id)
    return RunSummary(
        kind=RunKind.CHECK,
        run=check_id,
        restore_id=None,
        savepoint_id=None,
        began_at=at,
        ended_at=at,
        succeeded=verdict.good,
        outcome=f"{verdict.level}: {verdict.files} files{_sampling(verdict, at)}"
        if verdict.good
        else ", ".join(cause.value for cause in verdict.causes),
        rpo_seconds=None,
        rto_seconds=None,
    )


def _sampling(verdict: CheckReport, at: int) -> str:
    return f"; {verdict.sampling}" if verdict.sampling is not None and verdict.sampling.believed(at) else ""


def _journal(recovery: RecoveryContext, restore_id: str) -> tuple[JournalEntry, ...]:
    log = AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry)
    return tuple(reversed(list(log.readable_back(whole=False))))
