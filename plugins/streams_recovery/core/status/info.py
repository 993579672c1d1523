"""An application at a glance, and the metrics of the monitor.

The glance comes from the report of the monitor, or from the repository alone where there is no report. Users build on the names of the metrics:
docs/monitoring.md lists them, dashboards and rules use them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.errors import Damaged, Forged
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.encryption import EncryptionState
from streams_recovery.core.repository.mirror import SecondPlace
from streams_recovery.core.repository.publication import Publication, SavepointFacts
from streams_recovery.core.repository.seal import SEALED, forged_records, seal_of_savepoint
from streams_recovery.core.repository.survival import survives_text
from streams_recovery.core.status.report import (
    ArchiveStatus,
    Glance,
    Health,
    RunKind,
    SitesStatus,
    StatusReport,
    come_by,
    disk_bytes,
    newest_exact,
    recovery_point,
)
from streams_recovery.core.words import command, count, moment, moment_of, size, span


class InfoSource(enum.StrEnum):
    """Source of an info. The repository alone says nothing of the cluster and of the application."""

    MONITOR = "monitor"
    REPOSITORY = "repository"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationInfo(Glance):
    """One application. ``looked_at`` is when it was looked at, in milliseconds. ``age_seconds`` is the age now of the newest exact savepoint, None
    without one; ``objective_met`` is None if nothing is promised and nothing scheduled. ``problems`` are parts that could not be looked
    at, with the reason, and ``damaged`` the ids of savepoints. ``sealed`` is true where records are believed by their seals. ``sites`` are as they are on
    record now, with what the monitor last saw of them. ``recovery_point`` (ms) is up to when input would be there if the cluster were lost, by the ``archive``
    as it is now, None if nothing was ever archived. ``second_place`` and ``encryption`` are as they are now, None
    without them.
    """

    source: InfoSource
    looked_at: int
    newest: SavepointFacts | None
    newest_exact: SavepointFacts | None
    savepoints: int
    damaged: tuple[str, ...]
    age_seconds: float | None
    objective_seconds: float | None
    objective_met: bool | None
    recovery_seconds: float | None
    problems: dict[str, str]
    sealed: bool
    recovery_point: int | None
    loss_objective_seconds: float | None
    unsaved_outputs: tuple[str, ...] = ()
    second_place: SecondPlace | None = None
    encryption: EncryptionState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentFacts:
    """Facts of the moment ``now`` (ms), when an info is made of older facts. ``objective`` is how old the newest exact savepoint may be, in seconds, by a
    promise or by the schedule, and ``loss`` how old the recovery point may be. ``sealed`` is true if the reader checks the seal of each record: the word of a
    status on its own seals proves nothing. ``unsaved_outputs`` are those whose records savepoints do not have, by the configuration.
    """

    now: int
    objective: float | None
    loss: float | None
    sealed: bool
    sites: SitesStatus
    archive: ArchiveStatus | None
    unsaved_outputs: tuple[str, ...] = ()


def info_of_report(report: StatusReport, present: PresentFacts) -> ApplicationInfo:
    """The info of a status, with ages as they are now."""
    exact = None if report.newest_exact is None else _facts_of(report.newest_exact)
    age = _age(exact, present.now)
    return ApplicationInfo(
        **codec.fields_of(Glance, replace(report, sites=present.sites, archive=present.archive)),
        source=InfoSource.REPOSITORY if report.monitored_at is None else InfoSource.MONITOR,
        looked_at=report.taken_at if report.monitored_at is None else report.monitored_at,
        newest=None if report.newest is None else _facts_of(report.newest),
        newest_exact=exact,
        savepoints=report.savepoint_count,
        damaged=(),
        age_seconds=age,
        objective_seconds=present.objective,
        objective_met=_met(age, present.objective),
        recovery_seconds=None if report.estimate is None else report.estimate.total,
        problems={name: part.problem for name, part in sorted(report.parts.items()) if part.problem is not None},
        sealed=present.sealed,
        recovery_point=recovery_point(exact, present.archive),
        loss_objective_seconds=present.loss,
        unsaved_outputs=present.unsaved_outputs,
    )


def info_of_repository(
    name: str, application_id: str, found: Mapping[str, Publication | Damaged], present: PresentFacts, *, forged: Mapping[str, str]
) -> ApplicationInfo:
    """The info of savepoints, the newest last. Health is the worst of having none that is exact, of the objective and of damage. It is never good, because the
    cluster was not looked at, and unknown while there is no savepoint. ``forged`` has the reason for each record that was not used.
    """
    whole = [one for one in found.values() if isinstance(one, Publication)]
    damaged = tuple(name for name, one in found.items() if isinstance(one, Damaged) and not isinstance(one, Forged))
    come = come_by(whole, present.now)
    exact = None if (chosen := newest_exact(come)) is None else _facts_of(chosen)
    age = _age(exact, present.now)
    met = _met(age, present.objective)
    return ApplicationInfo(
        name=name,
        application_id=application_id,
        source=InfoSource.REPOSITORY,
        looked_at=present.now,
        health=_seen(found, exact, wrong=bool(damaged or forged) or met is False),
        newest=_facts_of(come[-1]) if come else None,
        newest_exact=exact,
        savepoints=len(whole) + len(damaged),
        damaged=damaged,
        age_seconds=age,
        objective_seconds=present.objective,
        objective_met=met,
        repository_bytes=None,
        recovery_seconds=None,
        findings=(),
        problems={},
        sealed=present.sealed,
        forged=forged_records(forged),
        forged_count=len(forged),
        sites=present.sites,
        recovery_point=recovery_point(exact, present.archive),
        loss_objective_seconds=present.loss,
        archive=present.archive,
        unsaved_outputs=present.unsaved_outputs,
    )


def _facts_of(found: SavepointFacts) -> SavepointFacts:
    """Only what every type of a savepoint tells."""
    return SavepointFacts(**codec.fields_of(SavepointFacts, found))


def _seen(found: Mapping[str, object], exact: SavepointFacts | None, *, wrong: bool) -> Health:
    if not found:
        return Health.UNKNOWN
    return Health.TROUBLE if exact is None else Health.ATTENTION if wrong else Health.UNKNOWN


def _age(exact: SavepointFacts | None, now: int) -> float | None:
    return None if exact is None else max(0, now - exact.captured_at) / 1000


def _met(age: float | None, objective: float | None) -> bool | None:
    return None if objective is None else age is not None and age <= objective


def news_lines(before: StatusReport | None, now: StatusReport) -> Iterator[str]:
    """What a look has found, a line each: the health and all findings without a look ``before``, else what has changed since that one, how severe a
    finding is too.
    """
    known = {} if before is None else {one.cause: one for one in before.findings}
    found = {one.cause: one for one in now.findings}
    if before is None or before.health is not now.health:
        yield f"status: {now.health}"
    for cause, one in found.items():
        if cause not in known or known[cause].severity is not one.severity:
            yield f"{one.severity}, {cause}: {one.text}"
    for cause, one in known.items():
        if cause not in found:
            yield f"over, {cause}: {one.text}"


def info_lines(info: ApplicationInfo, now: int) -> Iterator[str]:
    """One fact a line, below the name of the application."""
    yield f"application: {info.name} (id {info.application_id})"
    for name, value in _facts(info, now):
        yield f"    {name}: {value}"
    if info.second_place is not None:
        yield f"    second place: {info.second_place}"
    if info.encryption is not None:
        yield f"    encryption: {info.encryption}"


def _facts(info: ApplicationInfo, now: int) -> Iterator[tuple[str, str]]:
    yield "status", "not looked at yet" if info.health is Health.UNKNOWN else str(info.health)
    yield "looked at", f"{_when(info.looked_at, now)}, {_by_whom(info.source)}"
    if info.sites != SitesStatus():
        yield "site", _sites(info.sites)
    stored = "" if info.repository_bytes is None else f", {size(info.repository_bytes)} in the repository"
    yield "savepoints", f"{count(info.savepoints)}{stored}"
    yield "newest", "there is none" if info.newest is None else _savepoint(info.newest, now, info.unsaved_outputs)
    if info.newest_exact != info.newest:
        yield "newest exact", "there is none" if info.newest_exact is None else _savepoint(info.newest_exact, now, info.unsaved_outputs)
    yield "a savepoint now", info.savepoint_way or "not looked at yet"
    yield "recovery point", _recovery_point(info, now)
    if info.archive is not None:
        yield "archive", _archive(info.archive, now)
    yield "seals", SEALED if info.sealed else seal_of_savepoint(sealed=False, adopted=False)
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


def _recovery_point(info: ApplicationInfo, now: int) -> str:
    if info.recovery_point is None:
        return "none: what the cluster has of the input would be lost with it"
    loss = max(0, now - info.recovery_point) / 1000
    limit = info.loss_objective_seconds
    objective = "" if limit is None else f"; {'met' if loss <= limit else 'MISSED'}, {span(limit)} is the limit"
    return f"{_when(info.recovery_point, now)}: up to then input would be there if the cluster were lost now{objective}"


def _archive(archive: ArchiveStatus, now: int) -> str:
    if archive.problem:
        return f"cannot be used: {archive.problem}"
    last = "" if archive.said_at is None else f", last heard of {_when(archive.said_at, now)}"
    waiting = f", {archive.waiting:,} records waited then" if archive.waiting else ""
    left = f"; {archive.left_count:,} partitions do not go on: {archive.left[0]}" if archive.left_count else ""
    state = "" if archive.state_at is None else f"; its newest exact cut of the state is of {_when(archive.state_at, now)}"
    if archive.looks is not None and len(archive.looks) > 1:
        state += f", and those of {len(archive.looks):,} moments since {_when(archive.looks[0], now)} are kept"
    where = f" HERE, ONE IS ON CLUSTER {archive.elsewhere}" if archive.elsewhere else ""
    return f"{'an archiver is at work' if archive.working else f'NO ARCHIVER IS AT WORK{where}'}{last}{waiting}, {archive.files:,} files{left}{state}"


def _sites(sites: SitesStatus) -> str:
    moving = "" if sites.moving_to is None else f", a failover moves it to {sites.moving_to}"
    fenced = "".join(f"; {one.site} is fenced" for one in sites.fences)
    lacking = "".join(f"; {one.site} is not ready for a failover" for one in sites.standbys if one.problem is not None or one.lacks)
    return f"{sites.belongs}{moving}{fenced}{lacking}"


def _by_whom(source: InfoSource) -> str:
    if source is InfoSource.MONITOR:
        return "by the monitor"
    return "in the repository alone: streams_monitor has not looked yet, so nothing is known of the cluster and of the application"


def _savepoint(found: SavepointFacts, now: int, unsaved: Sequence[str]) -> str:
    what = f"{found.consistency}, {found.profile}, {count(found.records)} records in {count(found.files)} files"
    survives = survives_text(survives=found.survives_cluster_loss, unsaved=unsaved)
    return f"{found.savepoint_id}, {_when(found.captured_at, now)}, {what}; survives the loss of the cluster: {survives}"


def _when(at: int, now: int) -> str:
    return f"{moment(at)}, {span(max(0, now - at) / 1000)} ago"


def _objective(info: ApplicationInfo) -> str:
    if info.objective_seconds is None:
        return "none, and no savepoint is scheduled"
    age = "there is no exact savepoint" if info.age_seconds is None else f"the newest exact savepoint is {span(info.age_seconds)} old"
    return f"{'met' if info.objective_met else 'MISSED'}: {age}, and {span(info.objective_seconds)} is the limit"


PREFIX: Final = "streams_recovery"
# Each for one application, with what it is.
GAUGES: Final = {
    "newest_age_seconds": "age of the newest exact savepoint",
    "newest_age_objective_seconds": "how old it may be, where an objective is configured",
    "loss_seconds": "age of the recovery point: what the loss of the cluster would cost",
    "loss_objective_seconds": "how much it may be, where an objective is configured",
    "archive_working": "1 while an archiver is at work, else 0; only where something was archived",
    "archive_waiting_records": "records that were not archived when the archiver last looked",
    "one_place_savepoints": "savepoints that are not in the second place; only with one that answers",
    "one_place_age_seconds": "age of the oldest of them, 0 without any",
    "second_place_archive_age_seconds": "age of what the second place has of the archive, while the archive goes on behind that",
    "exact_savepoint": "1 when there is an exact savepoint, else 0",
    "survives_cluster_loss": "1 when the newest exact savepoint is enough without the cluster, else 0",
    "savepoints": "how many savepoints there are",
    "health": "0 good, 1 attention, 2 trouble, 3 unknown, 4 not in use",
    "findings_critical": "critical findings",
    "findings_warning": "warnings",
    "findings_info": "findings that are neither",
    "repository_bytes": "stored bytes of the application's repository",
    "changelog_bytes": "changelogs on the disks of all brokers",
    "repartition_bytes": "repartition topics on the disks of all brokers",
    "state_bytes": "local state, where it is on the monitor's machine",
    "lag": "offsets that the application is behind its inputs",
    "disk_free_share": "free share of the fullest disk that the application fills",
    "recovery_objective_seconds": "how long a recovery may take, where an objective is configured",
    "recovery_estimate_seconds": "how long a restore of the newest exact savepoint would take",
    "drill_rpo_seconds": "age of the savepoint in the last drill that got so far",
    "look_due_at_seconds": "Unix time at which the next look is overdue, 0 where looks have no schedule",
    "drill_rto_seconds": "time until the application had caught up in the last drill that got so far",
}
# Each for one application.
COUNTERS: Final = {"looks": "looks that were stored", "look_failures": "looks that failed"}
# Without an application.
GLOBAL_GAUGES: Final = {
    "broken_configurations": "configurations that cannot be used",
    "heartbeat_due_at_seconds": "Unix time at which the next run of the monitor is overdue, 0 where it has no schedule",
}
GLOBAL_COUNTERS: Final = {"heartbeat": "runs of the monitor that began: when it stands still, so does the monitor"}
_HEALTH: Final = (Health.GOOD, Health.ATTENTION, Health.TROUBLE, Health.UNKNOWN, Health.UNUSED)


def metric(name: str, application: str | None = None) -> str:
    """The name that is sent: dots separate its parts, so those in an application's name are replaced."""
    return f"{PREFIX}.{name}" if application is None else f"{PREFIX}.{name}.{application.replace('.', '__')}"


def _second_place(report: StatusReport) -> dict[str, float | None]:
    seen = report.second_place
    if seen is None or seen.problem:
        return {}
    behind = seen.archived_at if seen.entries else None
    return {
        "one_place_savepoints": len(seen.alone),
        "one_place_age_seconds": max(0.0, (report.taken_at - moment_of(seen.alone[0])) / 1000) if seen.alone else 0.0,
        "second_place_archive_age_seconds": None if behind is None else max(0.0, (report.taken_at - behind) / 1000),
    }


def gauges(report: StatusReport) -> dict[str, float]:
    """The values of ``GAUGES`` that are known."""
    newest, point = report.newest_exact, report.history[-1] if report.history else None
    last = [run for run in report.runs if run.kind is RunKind.DRILL]
    found: dict[str, float | None] = {
        "newest_age_seconds": report.newest_age_seconds,
        "newest_age_objective_seconds": report.objectives.newest_age_seconds,
        "loss_seconds": report.loss_seconds,
        "loss_objective_seconds": report.objectives.loss_seconds,
        "archive_working": None if report.archive is None else float(report.archive.working),
        "archive_waiting_records": None if report.archive is None else report.archive.waiting,
        **_second_place(report),
        "exact_savepoint": float(newest is not None),
        "survives_cluster_loss": float(newest is not None and newest.survives_cluster_loss),
        "savepoints": report.savepoint_count,
        "health": _HEALTH.index(report.health),
        **{f"findings_{severity}": sum(one.severity is severity for one in report.findings) for severity in Severity},
        "repository_bytes": report.repository_bytes,
        "changelog_bytes": disk_bytes(report.topics, TopicRole.CHANGELOG),
        "repartition_bytes": disk_bytes(report.topics, TopicRole.REPARTITION),
        "state_bytes": point.state_bytes if point is not None else None,
        "lag": sum(topic.lag or 0 for topic in report.topics) if report.topics else None,
        "disk_free_share": min((disk.free_bytes / disk.total_bytes for disk in report.disks if disk.total_bytes), default=None),
        "recovery_objective_seconds": report.objectives.recovery_seconds,
        "recovery_estimate_seconds": report.estimate.total if report.estimate is not None else None,
        "look_due_at_seconds": 0.0 if report.fresh_seconds is None else report.taken_at / 1000 + report.fresh_seconds,
        "drill_rpo_seconds": _newest(run.rpo_seconds for run in last),
        "drill_rto_seconds": _newest(run.rto_seconds for run in last),
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _newest(values: Iterable[float | None]) -> float | None:
    return next((value for value in reversed(list(values)) if value is not None), None)
