"""A check in three steps: plan, read (the Spark job, when files are to be read), conclude. Changes nothing but its own notes and its report.

Whatever is wrong with one object becomes a finding, and all others are looked at: damage, an object that cannot be read, a manifest that must
be there and is not. Only a repository that does not answer at all ends a check.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from streams_recovery.core import codec
from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.repository import check
from streams_recovery.core.repository.check import (
    Cause,
    CheckReport,
    CheckResult,
    CheckSpec,
    FileToCheck,
    Finding,
    LeftBehind,
    SampleProgress,
)
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import command, is_ahead, is_id, new_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.contents import RecordsChecked, check_logs, leftovers, lost
from streams_recovery.operations.unfinished import restores_of
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.json_object import UNREADABLE, only_this_one
from streams_recovery.storage.range_tables import PartitionRanges
from streams_recovery.storage.savepoints import SavepointStore

ALL = "all"
_LOOKED_AT = 20
_NAMED = 3
_COPIED_MS = 3 * DAY_MS
STRUCTURE, SPEC, RESULT = "check-structure", "check-spec", "check-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure(check.StructureFacts):
    """The result of reading manifests, records and sizes. ``present`` files are there with their size. ``sampling`` is how far samples had come before this
    check, ``sampled`` with it.
    """

    present: int
    sampled: SampleProgress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTicket:
    """A check under way, and the job to run for it. It needs no lock: savepoints never change, and one that expires meanwhile is found missing.
    ``structure`` is what was found so far. ``job`` has no place for a result: ``plan_reading`` gives each attempt its own.
    """

    check_id: str
    level: str
    structure: ArtifactRef
    job: JobPlan


def plan_check(recovery: RecoveryContext, *, savepoint: str, level: str, run_id: str) -> CheckTicket:
    """Read manifests and records, ask for sizes, and leave a Spark job the files it has to read. ``savepoint`` is an id, ``latest`` or ``all``.

    Raises ``ConfigInvalid`` for a level there is not, ``NotFound`` when there is nothing to check, ``RepositoryUnavailable``. Damage is noted, not
    raised: one damaged savepoint must not hide the others.
    """
    depth = check.parse_level(level)
    whole, savepoint = savepoint == ALL, recovery.savepoints.id_of(savepoint)
    wanted = [(store, one) for store in (recovery.savepoints, recovery.safety) for one in store.ids() if whole or one == savepoint]
    gone = _lost(recovery, None if whole else savepoint)
    if not wanted and not gone:
        raise _nothing_there(recovery) if whole else _no_such(recovery, savepoint)
    opened: dict[str, PartitionRanges] = {}
    manifests, found = _manifests(recovery, wanted, opened)
    logs = check_logs(recovery, every_entry=depth.percent == check.EVERYTHING) if whole else RecordsChecked(read=0, findings=())
    files, described = check.files_of(manifests, opened)
    present, misfits = _present(recovery, files)
    check_id = new_id(recovery.clock(), run_id)
    newest = newest_check(recovery)
    before = newest[1].sampling if newest is not None else None
    if whole:
        chosen, sampled = check.next_sample(present, depth.percent, before, now=recovery.clock())
    else:
        chosen, sampled = check.sampled(present, depth.percent, check_id), before
    strange = (*_ahead(recovery), *_copied(recovery, {one for _, one in wanted})) if whole else ()
    structure = Structure(
        savepoints=len(manifests),
        minimal=sum(manifest.profile is Profile.MINIMAL for manifest in manifests),
        records=logs.read,
        present=len(present),
        findings=(*gone, *found, *described, *misfits, *logs.findings, *strange),
        sampling=before,
        sampled=sampled,
        left_behind=_left_behind(recovery) if whole else None,
    )
    return CheckTicket(
        check_id=check_id,
        level=depth.name,
        structure=recovery.artifacts.write(check_id, STRUCTURE, structure),
        job=_job(recovery, check_id, chosen),
    )


def _left_behind(recovery: RecoveryContext) -> LeftBehind:
    found = leftovers(recovery)
    return LeftBehind(
        runs=tuple(work.run for work in found.work[:_NAMED]),
        run_count=len(found.work),
        run_bytes=sum(work.bytes for work in found.work),
        staged=tuple(file.key for file in found.staged[:_NAMED]),
        staged_count=len(found.staged),
        staged_bytes=sum(file.bytes for file in found.staged),
        kept=found.kept[:_LOOKED_AT],
    )


def _nothing_there(recovery: RecoveryContext) -> NotFound:
    orphans = len(recovery.repository.listed(recovery.layout.segments))
    return NotFound(
        f"{recovery.application_id} has no savepoint in {recovery.repository.location}"
        + (f", but {orphans} segments that no manifest names: manifests were lost, or none was ever finished" if orphans else ""),
        next_step="take one first, or check the storage section of the configuration",
        application_id=recovery.application_id,
        segments=orphans,
    )


def _no_such(recovery: RecoveryContext, savepoint_id: str) -> NotFound:
    return NotFound(
        f"there is no savepoint {savepoint_id} of {recovery.application_id} in {recovery.repository.location}",
        next_step="choose one that is listed; one without a manifest was never finished and cannot be used",
        savepoint=savepoint_id,
    ).then(command("savepoints", "list", recovery.config.name))


def _lost(recovery: RecoveryContext, only: str | None) -> list[Finding]:
    return [
        Finding(cause=Cause.LOST_MANIFEST, key=_where_it_was(recovery, savepoint_id), problem=why, savepoints=(savepoint_id,))
        for savepoint_id, why in lost(recovery).items()
        if only in (None, savepoint_id)
    ]


def _ahead(recovery: RecoveryContext) -> list[Finding]:
    now, problem = (
        recovery.clock(),
        "has a time that has not come: a clock was wrong, or somebody has made it up; nothing takes it for the newest",
    )
    manifests = [store.key(one) for store in (recovery.savepoints, recovery.safety) for one in store.ahead()]
    restores = [recovery.layout.journal(one) for one in sorted(restores_of(recovery)) if is_ahead(one, now)]
    return [Finding(cause=Cause.DAMAGED_RECORD, key=key, problem=problem, savepoints=()) for key in (*manifests, *restores)]


def _copied(recovery: RecoveryContext, alive: set[str]) -> list[Finding]:
    # An expiry that was killed behind the copy goes on with its next run. A copy that stays could make a loss look like an expiry some day.
    problem = "is where expiry puts manifests, and the savepoint exists: remove the copy, unless an expiry goes on"
    return [
        Finding(cause=Cause.DAMAGED_RECORD, key=copy.key, problem=problem, savepoints=())
        for savepoint_id, copies in recovery.savepoints.copies().items()
        for copy in copies
        if savepoint_id in alive and copy.modified < recovery.clock() - _COPIED_MS
    ]


def _where_it_was(recovery: RecoveryContext, savepoint_id: str) -> str:
    try:
        return recovery.savepoints.publication(savepoint_id).manifest
    except (Damaged, NotFound, *UNREADABLE):
        return recovery.layout.manifest(savepoint_id)


def _manifests(
    recovery: RecoveryContext, wanted: list[tuple[SavepointStore, str]], opened: dict[str, PartitionRanges]
) -> tuple[list[Manifest], list[Finding]]:
    manifests, found = [], []
    for store, savepoint_id in wanted:
        key = store.key(savepoint_id)
        try:
            manifests.append(store.read(savepoint_id, opened))
            found += _altered(recovery, store, savepoint_id)
        except NotFound:
            # It has expired since it was listed.
            continue
        except Damaged as error:
            found.append(check.manifest_finding(key, savepoint_id, error))
        except UNREADABLE as error:
            problem = only_this_one(recovery.repository, recovery.layout, error)
            found.append(Finding(cause=Cause.NOT_READ, key=key, problem=problem, savepoints=(savepoint_id,)))
    return manifests, found


def _altered(recovery: RecoveryContext, store: SavepointStore, savepoint_id: str) -> list[Finding]:
    record = recovery.layout.published(savepoint_id)
    try:
        altered = store.altered(savepoint_id)
    except NotFound:
        # Taken by a release that kept no record, or by a run that was killed right after it had published.
        return []
    except Damaged as error:
        return [Finding(cause=Cause.DAMAGED_RECORD, key=record, problem=error.reason, savepoints=())]
    except UNREADABLE as error:
        return [
            Finding(cause=Cause.NOT_READ, key=record, problem=only_this_one(recovery.repository, recovery.layout, error), savepoints=())
        ]
    problem = "is not what was published"
    return (
        [Finding(cause=Cause.DAMAGED_MANIFEST, key=store.key(savepoint_id), problem=problem, savepoints=(savepoint_id,))] if altered else []
    )


def _present(recovery: RecoveryContext, files: list[FileToCheck]) -> tuple[list[FileToCheck], list[Finding]]:
    present, found = [], []
    sizes = recovery.repository.sizes(recovery.layout.segments) if files else {}
    for wanted in files:
        try:
            # A listing passes over what is no plain object. Asked for by its name, it tells what is the matter.
            size = sizes[wanted.file.key] if wanted.file.key in sizes else recovery.repository.size(wanted.file.key)
            problem = check.size_problem(wanted, size)
        except UNREADABLE as error:
            problem = check.finding(wanted, Cause.NOT_READ, only_this_one(recovery.repository, recovery.layout, error))
        if problem is None:
            present.append(wanted)
        else:
            found.append(problem)
    return present, found


def _job(recovery: RecoveryContext, check_id: str, files: tuple[FileToCheck, ...]) -> JobPlan:
    spec = recovery.artifacts.write(check_id, SPEC, CheckSpec(application_id=recovery.application_id, files=files)) if files else None
    offsets = sum(wanted.end - wanted.start for wanted in files)
    volume = JobVolume.of((wanted.file.rows, wanted.file.payload_bytes) for wanted in files)
    return JobPlan(spec=spec, result_key=None, ranges=len(files), offsets=offsets, volume=volume)


def plan_reading(recovery: RecoveryContext, ticket: CheckTicket) -> JobPlan:
    """The job of one attempt, with a place of its own for its result: an earlier attempt that still runs somewhere, or has left its failure, is
    never taken for this one. ``conclude_check`` gets the result of the attempt that counts.
    """
    if ticket.job.spec is None:
        return ticket.job
    return replace(ticket.job, result_key=recovery.artifacts.reserve(ticket.check_id, f"{RESULT}-{uuid.uuid4().hex}"))


def conclude_check(recovery: RecoveryContext, ticket: CheckTicket, result: ArtifactRef | None) -> CheckReport:
    """The verdict, kept in the repository whatever it is. ``result`` is that of the attempt that counts, None when no job was run. Does not raise for
    damage: see ``raise_unless_good``.
    """
    structure = recovery.artifacts.read(Structure, ticket.structure)
    read: tuple[FileToCheck, ...] = ()
    checked = {}
    if ticket.job.spec is not None:
        read = recovery.artifacts.read(CheckSpec, ticket.job.spec).files
        if result is not None:
            checked = {done.key: done for done in recovery.artifacts.read_own(CheckResult, ticket.check_id, result).files}
    seen = replace(
        structure,
        findings=tuple(check.worst_first((*structure.findings, *check.findings_of(read, checked)))),
        # What was not read has to be read by the next check.
        sampling=structure.sampled if any(done.read for done in checked.values()) else structure.sampling,
    )
    report = CheckReport(
        **codec.fields_of(check.StructureFacts, seen),
        files=structure.present,
        check_id=ticket.check_id,
        application_id=recovery.application_id,
        level=ticket.level,
        files_read=sum(done.read for done in checked.values()),
        rows_read=sum(done.rows for done in checked.values()),
    )
    AppendLog(recovery.repository, recovery.layout.check(ticket.check_id), CheckReport, most_bytes=MOST_BYTES).append(report)
    return report


def newest_check(recovery: RecoveryContext) -> tuple[str, CheckReport] | None:
    """The newest check with a verdict that can be read, and its id. Ids that no clock can have made are passed over."""
    prefix, now = recovery.layout.checks, recovery.clock()
    found = {name for key in recovery.repository.keys(prefix) if is_id(name := key.removeprefix(prefix).split("/")[0])}
    for check_id in sorted((one for one in found if not is_ahead(one, now)), reverse=True)[:_LOOKED_AT]:
        log = AppendLog(recovery.repository, recovery.layout.check(check_id), CheckReport, most_bytes=MOST_BYTES)
        report = next(log.readable_back(whole=False), None)
        if report is not None:
            return check_id, report
    return None


def raise_unless_good(report: CheckReport) -> None:
    """Raise ``Damaged`` with the first findings, and for a report that checked nothing. Its next step is that of the worst cause."""
    if report.good:
        return
    first = "; ".join(str(found) for found in report.findings[:3])
    raise Damaged(
        f"{len(report.findings)} findings in the repository of {report.application_id} ({report.counted}): {first}"
        if report.findings
        else f"the check of {report.application_id} checked nothing ({report.counted})",
        next_step=report.causes[0].next_step,
        check=report.check_id,
        causes=[cause.value for cause in report.causes],
    )
