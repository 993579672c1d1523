"""The metrics of the monitor. Their names are part of what users build on: docs/monitoring.md lists them, dashboards and rules use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.finding import Severity
from streams_recovery.core.status.report import Health, RunKind, StatusReport

PREFIX: Final = "streams_recovery"
# Each for one application, with what it is.
GAUGES: Final = {
    "newest_age_seconds": "age of the newest exact savepoint",
    "newest_age_objective_seconds": "how old it may be, where an objective is configured",
    "loss_seconds": "age of the recovery point: what the loss of the cluster would cost",
    "loss_objective_seconds": "how much it may be, where an objective is configured",
    "archive_working": "1 while an archiver is at work, else 0; only where something was archived",
    "archive_waiting_records": "records that were not archived when the archiver last looked",
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


def gauges(report: StatusReport) -> dict[str, float]:
    """The values of ``GAUGES`` that are known."""
    newest, point = report.newest_exact, report.history[-1] if report.history else None
    last = [run for run in report.runs if run.kind is RunKind.DRILL]
    found: dict[str, float | None] = {
        "newest_age_seconds": None if newest is None else max(0.0, (report.taken_at - newest.captured_at) / 1000),
        "newest_age_objective_seconds": report.objectives.newest_age_seconds,
        "loss_seconds": report.loss_seconds,
        "loss_objective_seconds": report.objectives.loss_seconds,
        "archive_working": None if report.archive is None else float(report.archive.working),
        "archive_waiting_records": None if report.archive is None else report.archive.waiting,
        "exact_savepoint": float(newest is not None),
        "survives_cluster_loss": float(newest is not None and newest.survives_cluster_loss),
        "savepoints": report.savepoint_count,
        "health": _HEALTH.index(report.health),
        **{f"findings_{severity}": sum(one.severity is severity for one in report.findings) for severity in Severity},
        "repository_bytes": report.repository_bytes,
        "changelog_bytes": _bytes(report, TopicRole.CHANGELOG),
        "repartition_bytes": _bytes(report, TopicRole.REPARTITION),
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


def _bytes(report: StatusReport, role: TopicRole) -> int | None:
    known = [topic.disk_bytes for topic in report.topics if topic.role is role and topic.disk_bytes is not None]
    return sum(known) if known else None


def _newest(values: Iterable[float | None]) -> float | None:
    return next((value for value in reversed(list(values)) if value is not None), None)
