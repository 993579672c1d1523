"""An application at a glance, as text."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.repository.seal import NOT_SEALED, SEAL_IT, SEALED
from streams_recovery.core.status.info import ApplicationInfo, InfoSavepoint, InfoSource
from streams_recovery.core.status.report import Health
from streams_recovery.core.text.next_command import command
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.core.text.units import size, span


def info_lines(info: ApplicationInfo, now: int) -> Iterator[str]:
    """One fact a line, below the name of the application."""
    yield f"application: {info.name} (id {info.application_id})"
    for name, value in _facts(info, now):
        yield f"    {name}: {value}"


def _facts(info: ApplicationInfo, now: int) -> Iterator[tuple[str, str]]:
    yield "status", "not looked at yet" if info.health is Health.UNKNOWN else str(info.health)
    yield "looked at", f"{_when(info.looked_at, now)}, {_by_whom(info.source)}"
    stored = "" if info.repository_bytes is None else f", {size(info.repository_bytes)} in the repository"
    yield "savepoints", f"{info.savepoints:,}{stored}"
    yield "newest", "there is none" if info.newest is None else _savepoint(info.newest, now)
    if info.newest_exact != info.newest:
        yield "newest exact", "there is none" if info.newest_exact is None else _savepoint(info.newest_exact, now)
    yield "seals", SEALED if info.sealed else f"{NOT_SEALED} Next: {SEAL_IT}"
    yield "objective", _objective(info)
    if info.recovery_seconds is not None:
        yield "a restore takes about", span(info.recovery_seconds)
    for savepoint_id in info.damaged:
        yield "damaged", savepoint_id
    for record in info.forged:
        yield "forged, not used", f"{record.key}: {record.why}"
    if info.forged_count > len(info.forged):
        yield "forged, not used", f"{info.forged_count - len(info.forged):,} more: {command('verify', info.name)} names them"
    for part, problem in info.problems.items():
        yield f"{part} was not looked at", problem
    for finding in info.findings:
        yield str(finding.severity), f"{finding.kind}: {finding.text}"


def _by_whom(source: InfoSource) -> str:
    if source is InfoSource.MONITOR:
        return "by streams_monitor"
    return "in the repository alone: streams_monitor has not looked yet, so nothing is known of the cluster and of the application"


def _savepoint(found: InfoSavepoint, now: int) -> str:
    survives = "survives" if found.survives_cluster_loss else "does not survive"
    what = f"{found.consistency}, {found.profile}, {found.records:,} records in {found.files:,} files"
    return f"{found.savepoint_id}, {_when(found.captured_at, now)}, {what}; it {survives} the loss of the cluster"


def _when(at: int, now: int) -> str:
    return f"{moment(at)}, {span(max(0, now - at) / 1000)} ago"


def _objective(info: ApplicationInfo) -> str:
    if info.objective_seconds is None:
        return "none, and no savepoint is scheduled"
    age = "there is no exact savepoint" if info.age_seconds is None else f"the newest exact savepoint is {span(info.age_seconds)} old"
    return f"{'met' if info.objective_met else 'MISSED'}: {age}, and {span(info.objective_seconds)} is the limit"
