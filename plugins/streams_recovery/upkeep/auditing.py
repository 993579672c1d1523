"""An audit in two steps, with a Spark job between them when files are to be read. Changes nothing but its own notes and its report."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core import audit
from streams_recovery.core.audit import AuditReport, AuditResult, AuditSpec, FileToAudit, Finding
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.savepoint_id import new_id
from streams_recovery.savepoints.values import JobPlan
from streams_recovery.storage.numbered import NumberedLog
from streams_recovery.workbench import Workbench

ALL = "all"
STRUCTURE, SPEC, RESULT = "audit-structure", "audit-spec", "audit-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """What manifests and sizes told. ``savepoints`` manifests were read, ``present`` files are there with their size."""

    savepoints: int
    present: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTicket:
    """An audit under way, and the job to run for it. It needs no lock: savepoints never change, and one that expires meanwhile is found missing."""

    audit_id: str
    level: str
    job: JobPlan


def plan_audit(bench: Workbench, *, savepoint: str, level: str, run_id: str) -> AuditTicket:
    """Read manifests, ask for sizes, and leave a Spark job the files it has to read. ``savepoint`` is an id or ``all``.

    Raises ``ConfigInvalid`` for a level there is not, ``NotFound`` when there is nothing to audit. Damage is noted, not raised: one damaged
    savepoint must not hide the others.
    """
    depth = audit.parse_level(level)
    ids = bench.savepoints.ids() if savepoint == ALL else [savepoint]
    if not ids:
        orphans = len(bench.repository.listed(bench.layout.segments))
        raise NotFound(
            f"{bench.application_id} has no savepoint in {bench.repository.location}"
            + (f", but {orphans} segments that no manifest names: manifests were lost, or none was ever finished" if orphans else ""),
            next_step="take one first, or check the storage section of the configuration",
        )
    manifests, findings = _manifests(bench, ids, may_vanish=savepoint == ALL)
    files, described = audit.files_of(manifests)
    findings += described
    present = []
    for wanted in files:
        problem = audit.size_problem(wanted.file, bench.repository.size(wanted.file.key))
        if problem is None:
            present.append(wanted)
        else:
            findings.append(audit.finding(wanted, problem))
    audit_id = new_id(bench.clock(), run_id)
    bench.notes.write(audit_id, STRUCTURE, Structure(savepoints=len(manifests), present=len(present), findings=tuple(findings)))
    return AuditTicket(audit_id=audit_id, level=depth.name, job=_job(bench, audit_id, audit.sampled(present, depth.percent)))


def _manifests(bench: Workbench, ids: list[str], *, may_vanish: bool) -> tuple[list[Manifest], list[Finding]]:
    manifests, findings = [], []
    for savepoint_id in ids:
        try:
            manifests.append(bench.savepoints.read(savepoint_id))
        except NotFound:
            # It may have expired since it was listed; one that was asked for by its id must be there.
            if not may_vanish:
                raise
        except Damaged as error:
            findings.append(audit.manifest_finding(bench.layout.manifest(savepoint_id), savepoint_id, error))
    return manifests, findings


def _job(bench: Workbench, audit_id: str, files: tuple[FileToAudit, ...]) -> JobPlan:
    if not files:
        return JobPlan(spec_key=None, result_key=None, ranges=0, offsets=0)
    return JobPlan(
        spec_key=bench.notes.write(audit_id, SPEC, AuditSpec(application_id=bench.application_id, files=files)),
        result_key=bench.notes.reserve(audit_id, RESULT),
        ranges=len(files),
        offsets=sum(wanted.end - wanted.start for wanted in files),
    )


def conclude_audit(bench: Workbench, ticket: AuditTicket, result_key: str | None) -> AuditReport:
    """The verdict, kept in the repository whatever it is. Does not raise for damage: see ``raise_unless_good``."""
    structure = bench.notes.read(Structure, ticket.audit_id, STRUCTURE)
    read: tuple[FileToAudit, ...] = ()
    audited = {}
    if ticket.job.spec_key is not None:
        read = bench.notes.read_key(AuditSpec, ticket.job.spec_key).files
        if result_key is not None:
            audited = {done.key: done for done in bench.notes.read_key(AuditResult, result_key).files}
    report = AuditReport(
        audit_id=ticket.audit_id,
        application_id=bench.application_id,
        level=ticket.level,
        savepoints=structure.savepoints,
        files=structure.present,
        files_read=len(audited),
        rows_read=sum(done.rows for done in audited.values()),
        findings=(*structure.findings, *audit.findings_of(read, audited)),
    )
    NumberedLog(bench.repository, bench.layout.audit(ticket.audit_id), AuditReport).append(report)
    return report


def raise_unless_good(report: AuditReport) -> None:
    """Raise ``Damaged`` with the first findings, and for a report that checked nothing."""
    counted = f"{report.savepoints} savepoints, {report.files} files, {report.files_read} read, {report.rows_read} rows"
    if report.findings:
        first = "; ".join(str(found) for found in report.findings[:3])
        raise Damaged(
            f"{len(report.findings)} findings in the repository of {report.application_id} ({counted}): {first}",
            next_step="put the files back from a copy of the repository if there is one, and take a new savepoint now; those named cannot be trusted",
            audit=report.audit_id,
        )
    if report.checked_nothing:
        raise Damaged(
            f"the audit of {report.application_id} checked nothing ({counted})",
            next_step="check the storage section of the configuration; a repository without files protects nobody",
            audit=report.audit_id,
        )
