"""Savepoints and past runs as the monitor lists them. The runs are restores, drills, checks and reprocessed intervals.

Savepoints are listed by the records of their publication. Facts that a record lacks are looked up once, and then taken from the report before.
"""

from __future__ import annotations

import contextlib
import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, EntryUnreadable, Forged, NotFound, RecoveryError
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.repository.journal import JournalEntry, Phase, may_restart, reached
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.publication import Publication, SavepointFacts
from streams_recovery.core.repository.retention import Decision, HeldSavepoint, Pins, StoredFile, decide
from streams_recovery.core.restore.point_in_time import CUT_ROLES, moments_of
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.sandbox.interval_log import ReprocessEntry
from streams_recovery.core.status.facts import LockState, RestoreState
from streams_recovery.core.status.report import RunKind, RunSummary, SavepointSummary, StatusReport
from streams_recovery.core.status.savepoint_detail import SavepointDetail, savepoint_detail
from streams_recovery.core.words import in_order, is_id, moment_of
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import (
    keep_rules,
    needed_savepoints,
    newest_restore,
    pins_of,
    plan_of,
    restores_of,
    unfinished_restore,
)
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.range_tables import PartitionRanges

# Savepoints in a report.
MOST: Final = 2_000
# Savepoints that one look opens: those that are new since the last one, and after an upgrade some more with each look.
_OPENED: Final = 10
_TRACED: Final = 50
# Runs of each kind.
NEWEST: Final = 50
# Owners of the lock that bring an application back.
_RESTORING: Final = ("restore ", "cut-over ", "upgrade ")
# Records of the lock that one look reads: a savepoint has a dozen.
_RECORDS: Final = 200

Known = dict[tuple[RunKind, str], RunSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoints:
    """All savepoints, oldest first, and what was read on the way."""

    summaries: tuple[SavepointSummary, ...]
    publications: dict[str, Publication]
    damaged: tuple[str, ...]
    pins: Pins


def list_savepoints(recovery: RecoveryContext, earlier: StatusReport | None, segments: Sequence[StoredFile] | None) -> Savepoints:
    """The savepoints now. ``segments`` are those of the repository, None when they were not listed this time."""
    found = recovery.savepoints.summaries()
    publications = {savepoint_id: one for savepoint_id, one in found.items() if isinstance(one, Publication)}
    marks = pins_of(recovery, readable=True)
    manifests = {file.key: file.modified for file in recovery.repository.listed(recovery.layout.savepoints)}
    published = {name: manifests.get(recovery.savepoints.key(name)) for name in publications}
    known = {one.savepoint_id: one for one in earlier.savepoints} if earlier is not None else {}
    decided, kept = _decided(recovery, publications.values(), marks), marks.kept()
    summaries = [
        _summary(
            one,
            published[name],
            known.get(name),
            decided.get(name),
            pinned=name in kept,
            adopted=recovery.repository.adopted(recovery.savepoints.key(name)),
        )
        for name, one in publications.items()
    ]
    summaries = _with_new_bytes(summaries, published, segments)
    return Savepoints(
        summaries=tuple(_with_moments(recovery, _with_details(recovery, summaries))),
        publications=publications,
        damaged=tuple(name for name, one in found.items() if isinstance(one, Damaged) and not isinstance(one, Forged)),
        pins=marks,
    )


def _summary(
    one: Publication, published: int | None, known: SavepointSummary | None, decision: Decision | None, *, pinned: bool, adopted: bool
) -> SavepointSummary:
    # One that was compacted has the moment of its source: how long it took is not known.
    took = None if published is None or one.replaces is not None else max(0.0, (published - one.captured_at) / 1000)
    return SavepointSummary(
        **codec.fields_of(SavepointFacts, one),
        new_bytes=known.new_bytes if known else None,
        held_seconds=known.held_seconds if known else None,
        seconds=took,
        pinned=pinned,
        expires=decision is not None and not decision.why_kept,
        leaves_at=decision.until if decision is not None else None,
        adopted=adopted,
        input_positions=known.input_positions if known else None,
        moments=known.moments if known else None,
    )


def _decided(recovery: RecoveryContext, publications: Iterable[Publication], marks: Pins) -> dict[str, Decision]:
    """The decision of the rules of retention about each now, as if its files were whole."""
    try:
        in_use = needed_savepoints(recovery)
    except (Damaged, NotFound):
        # Which ones an unfinished restore needs is not known: expiry would stop here too.
        return {}
    held = [
        HeldSavepoint(
            savepoint_id=one.savepoint_id,
            captured_at=one.captured_at,
            consistency=one.consistency,
            whole=True,
            in_use=one.savepoint_id in in_use,
            replaces=one.replaces,
            profile=one.profile,
            survives=one.survives_cluster_loss,
            rescaled=bool(one.rescaled),
        )
        for one in publications
    ]
    return {decision.savepoint_id: decision for decision in decide(held, keep_rules(recovery), marks)}


def _with_new_bytes(
    summaries: Sequence[SavepointSummary], published: Mapping[str, int | None], segments: Sequence[StoredFile] | None
) -> list[SavepointSummary]:
    """The summaries with the bytes of segments that were stored up to each manifest, behind the one before it."""
    if segments is None:
        return list(summaries)
    order = sorted((moment, name) for name, moment in published.items() if moment is not None)
    moments = [moment for moment, _ in order]
    stored = [0] * len(order)
    for file in segments:
        at = bisect_left(moments, file.modified)
        if at < len(order):
            stored[at] += file.bytes
    new = {name: count for (_, name), count in zip(order, stored, strict=True)}
    return [one if one.new_bytes is not None else replace(one, new_bytes=new.get(one.savepoint_id)) for one in summaries]


def _with_details(recovery: RecoveryContext, summaries: Sequence[SavepointSummary]) -> list[SavepointSummary]:
    """The summaries with the facts that only the savepoint itself has. It is read once: afterwards the report before has them."""
    unknown = [one.savepoint_id for one in summaries if one.held_seconds is None or one.input_positions is None][-_OPENED:]
    found = {savepoint_id: _detail(recovery, savepoint_id) for savepoint_id in unknown}
    return [
        one
        if (detail := found.get(one.savepoint_id)) is None
        else replace(one, held_seconds=detail.proof.held_seconds, input_positions=detail.input_positions())
        for one in summaries
    ]


def _with_moments(recovery: RecoveryContext, summaries: Sequence[SavepointSummary]) -> list[SavepointSummary]:
    """The summaries with the moments that each can be restored to, by the functions that plan a restore. Oldest first: a savepoint goes on in the archive of
    the one before it.
    """
    opened: dict[str, PartitionRanges] = {}
    read: dict[str, Manifest] = {}

    def inputs_of(savepoint_id: str) -> Manifest:
        if savepoint_id not in read:
            read[savepoint_id] = recovery.savepoints.read(savepoint_id, opened, roles=CUT_ROLES)
        return read[savepoint_id]

    found: list[SavepointSummary] = []
    before: tuple[str, str] | None = None
    left = _TRACED
    for one in summaries:
        moments = one.moments
        if moments is None and left:
            left -= 1
            # One that cannot be read now is asked again, and is no base until then.
            with contextlib.suppress(RecoveryError):
                goes_on = None if before is None else (inputs_of(before[0]), before[1])
                moments = moments_of(inputs_of(one.savepoint_id), goes_on, recovery.config.application.auto_offset_reset)
        found.append(replace(one, moments=moments))
        if moments is not None and moments.history is not None:
            before = one.savepoint_id, moments.history
    return found


def _detail(recovery: RecoveryContext, savepoint_id: str) -> SavepointDetail | None:
    """Its detail, made from its manifest where none can be read. None for one that expires meanwhile, or is damaged: that is told of elsewhere."""
    with contextlib.suppress(RecoveryError):
        return recovery.savepoints.detail(savepoint_id)
    with contextlib.suppress(RecoveryError):
        return savepoint_detail(recovery.savepoints.outline(savepoint_id))
    return None


def open_restores_now(recovery: RecoveryContext) -> tuple[RestoreState, ...]:
    """Restores that are not over."""
    return open_restores(recovery, lock_now(recovery, lock_records(recovery)))


def lock_records(recovery: RecoveryContext) -> list[LockRecord]:
    """The newest records of the lock, newest first."""
    log = AppendLog(recovery.repository, recovery.layout.locks, LockRecord)
    return list(itertools.islice(log.readable_back(whole=False), _RECORDS))


def lock_now(recovery: RecoveryContext, records: list[LockRecord]) -> LockState | None:
    """The lock as it is held, since the first of the holder's ``records``."""
    try:
        held = recovery.lock.holder()
    except EntryUnreadable as error:
        return LockState(owner="", purpose="", since=recovery.clock(), unreadable=str(error.facts["key"]))
    if held is None:
        return None
    return LockState(owner=held.owner, purpose=held.purpose, since=began(held, records), unreadable="", place=held.place)


def began(held: LockRecord, records: Iterable[LockRecord]) -> int:
    """When (ms) the holder of this record took the lock, by those of the ``records`` that are its."""
    return min((one.at for one in records if (one.owner, one.acquired) == (held.owner, held.acquired)), default=held.at)


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
    """The newest runs, oldest first. A run that was over at the last look is not read again."""
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
    found = (
        RunSummary(
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
        for one in AppendLog(recovery.repository, recovery.layout.drills, DrillEntry).readable_back(whole=False)
    )
    return _logged(RunKind.DRILL, known, found)


def _intervals(recovery: RecoveryContext, known: Known) -> Iterator[RunSummary]:
    found = (
        RunSummary(
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
        for one in AppendLog(recovery.repository, recovery.layout.reprocessed, ReprocessEntry).readable_back(whole=False)
    )
    return _logged(RunKind.REPROCESS, known, found)


def _logged(kind: RunKind, known: Known, newest_first: Iterable[RunSummary]) -> Iterator[RunSummary]:
    """Runs of a kind whose log gets an entry at the end of each: the known ones, and newer ones from the log."""
    yield from (one for (seen, _), one in known.items() if seen is kind)
    yield from itertools.takewhile(lambda one: (kind, one.run) not in known, itertools.islice(newest_first, NEWEST))


def _checks(recovery: RecoveryContext, known: Known) -> Iterator[RunSummary]:
    for check_id in in_order(ids_below(recovery, recovery.layout.checks), recovery.clock())[-NEWEST:]:
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
        outcome=f"{verdict.level}: {verdict.files_text}{_sampling(verdict, at)}"
        if verdict.good
        else ", ".join(cause.value for cause in verdict.causes),
        rpo_seconds=None,
        rto_seconds=None,
    )


def ids_below(recovery: RecoveryContext, prefix: str) -> set[str]:
    """Ids that are folders of the repository."""
    return {name for key in recovery.repository.keys(prefix) if is_id(name := key.removeprefix(prefix).split("/")[0])}


def _sampling(verdict: CheckReport, at: int) -> str:
    return f"; {verdict.sampling}" if verdict.sampling is not None and verdict.sampling.believed(at) else ""


def _journal(recovery: RecoveryContext, restore_id: str) -> tuple[JournalEntry, ...]:
    log = AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry)
    return tuple(reversed(list(log.readable_back(whole=False))))
