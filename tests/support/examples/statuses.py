"""Status reports as the monitor would write them: of an application with a savepoint an hour, or with nothing at all."""

from __future__ import annotations

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.kafka_types import Consistency, Profile, TopicRole
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.restore.point_in_time import Moments
from streams_recovery.core.status.report import (
    Health,
    HistoryPoint,
    Objectives,
    Part,
    RunKind,
    RunSummary,
    SavepointSummary,
    StatusFinding,
    StatusReport,
    TopicStatus,
)
from streams_recovery.core.words import new_id

HOUR = 3_600_000
NOW = 1_795_440_000_000


def summary(
    number: int, *, at: int | None = None, consistency: Consistency = Consistency.EXACT, profile: Profile = Profile.FULL
) -> SavepointSummary:
    """The savepoint of that number: number 0 was taken at ``NOW``, each other one an hour before the one below it."""
    captured = NOW - number * HOUR if at is None else at
    return SavepointSummary(
        savepoint_id=new_id(captured, str(number)),
        application_id="orders-app",
        replaces=None,
        captured_at=captured,
        consistency=consistency,
        profile=profile,
        parent_id=None,
        records=1_500_000 - 100 * number,
        files=400,
        new_bytes=40_000_000 + (number * 7_919) % 9_000_000,
        held_seconds=0.4 + (number % 7) / 10,
        seconds=58.0 + number % 13,
        requested_by="scheduler",
        run_id=f"scheduled__{number}",
        pinned=number % 50 == 3,
        expires=number > 24 and number % 24 != 0,
        survives_cluster_loss=True,
        input_positions={"orders": 5_000_000 - 60_000 * number, "inventory": 90_000 - 40 * number},
        moments=Moments(history="first", since=captured),
    )


def report(name: str = "orders", *, savepoints: int = 48, now: int = NOW, **changed: object) -> StatusReport:
    """The status of a healthy application, looked at 40 s after its newest savepoint, with what a test changes of it."""
    known = tuple(summary(number, at=now - number * HOUR) for number in reversed(range(savepoints)))
    newest = known[-1] if known else None
    fields: dict[str, object] = {
        "name": name,
        "application_id": f"{name}-app",
        "taken_at": now + 40_000,
        "monitored_at": now + 40_000,
        "health": Health.GOOD,
        "parts": dict.fromkeys(("repository", "cluster", "disks", "application"), Part(looked_at=now + 40_000, problem=None)),
        "objectives": Objectives(newest_age_seconds=3_600.0, recovery_seconds=900.0),
        "findings": (),
        "advice": (ADVICE,),
        "newest": newest,
        "newest_exact": newest,
        "savepoint_count": savepoints,
        "savepoints": known,
        "estimate": ESTIMATE,
        "repository_bytes": 38_200_000_000,
        "topics": TOPICS,
        "runs": runs(now),
        "history": history(now),
        "next_savepoint_at": now + HOUR,
    }
    return StatusReport(**(fields | changed))  # type: ignore[arg-type]


ESTIMATE = Estimate(seconds={"save": 24.0, "create": 4.0, "load": 96.0, "compare": 4.0, "start": 3.5, "catch up": 61.0}, measured=3)
PROGRESS = JobProgress(
    job="restore",
    phase="loading",
    at=0,
    seconds=60.0,
    records=40,
    records_total=100,
    bytes=400,
    tasks=2,
    tasks_done=0,
    records_per_second=1.0,
    bytes_per_second=10.0,
    percent=40,
    seconds_left=60.0,
)
ADVICE = StatusFinding(
    kind="no-standby",
    severity=Severity.INFO,
    subject="orders-app",
    text="The application has no standby replicas, so every restart on another machine reads all changelogs again.",
    remedies=("num.standby.replicas=1",),
    runbook="docs/runbooks/slow-recovery.md",
    numbers={"seconds": 61.0},
)
OLD = StatusFinding(
    kind="newest-too-old",
    severity=Severity.CRITICAL,
    subject="",
    text="The newest exact savepoint is 3 h 12 min old. The objective is 1 h. The last run failed: transactions stayed open below orders-3.",
    remedies=("streams-recovery backup orders", "kafka-transactions.sh --bootstrap-server broker:9092 find-hanging --broker-id 1"),
    runbook="docs/runbooks/no-savepoint.md",
    numbers={"seconds": 11_520.0, "objective_seconds": 3_600.0},
)
TOPICS = (
    TopicStatus(name="orders", role=TopicRole.INPUT, partitions=12, records=9_400_000, disk_bytes=3_100_000_000, lag=1_240),
    TopicStatus(name="inventory", role=TopicRole.INPUT, partitions=3, records=91_000, disk_bytes=24_000_000, lag=0),
    TopicStatus(name="order-totals", role=TopicRole.OUTPUT, partitions=12, records=9_300_000, disk_bytes=2_000_000_000, lag=None),
    TopicStatus(
        name="orders-app-totals-changelog", role=TopicRole.CHANGELOG, partitions=12, records=1_500_000, disk_bytes=800_000_000, lag=None
    ),
    TopicStatus(name="orders-app-by-region-repartition", role=TopicRole.REPARTITION, partitions=12, records=400, disk_bytes=None, lag=None),
)


def runs(now: int) -> tuple[RunSummary, ...]:
    """Two drills, a restore that failed, and nothing that is in progress."""
    return (
        _run(RunKind.DRILL, now - 30 * HOUR, 310.0, succeeded=True, outcome="state equal"),
        _run(RunKind.RESTORE, now - 20 * HOUR, 95.0, succeeded=False, outcome="the load was stopped"),
        _run(RunKind.DRILL, now - 6 * HOUR, 262.0, succeeded=True, outcome="state equal"),
    )


def _run(kind: RunKind, began: int, seconds: float, *, succeeded: bool, outcome: str) -> RunSummary:
    return RunSummary(
        kind=kind,
        run=f"manual__{began}",
        restore_id=new_id(began, kind),
        savepoint_id=None,
        began_at=began,
        ended_at=began + int(seconds * 1000),
        succeeded=succeeded,
        outcome=outcome,
        rpo_seconds=1_800.0 if succeeded else None,
        rto_seconds=seconds if succeeded else None,
    )


def history(now: int, points: int = 48) -> tuple[HistoryPoint, ...]:
    """One point an hour, with growth, some noise, and holes where nothing was measured."""
    return tuple(
        HistoryPoint(
            at=now - number * HOUR,
            changelog_bytes=None if number % 17 == 5 else 800_000_000 - number * 3_000_000 + (number * 977) % 5_000_000,
            state_bytes=640_000_000 - number * 2_000_000,
            repository_bytes=38_200_000_000 - number * 50_000_000,
            lag=(number * 613) % 4_000,
            newest_age_seconds=float(600 + (number * 331) % 3_000),
            loss_seconds=float(4 + (number * 7) % 20),
        )
        for number in reversed(range(points))
    )
