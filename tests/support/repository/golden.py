"""What is in the golden repositories, and how tests look at a copy of one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spark_jobs.transforms.check import check_file
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.offsets.snapshot import OffsetSnapshot
from streams_recovery.core.repository.check import CheckReport, CheckResult, CheckSpec
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.topic_holds.log import HoldEntry, HoldPurpose
from streams_recovery.operations import maintenance, quiesce_record
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.repository.stored import left

FIRST, SECOND = "20261121T000000Z-0000000001", "20261121T010000Z-0000000002"
# What the second became when it was compacted.
COMPACTED = "20261121T010000Z-0000000003"
# What it became when its small files were merged.
MERGED = "20261121T010000Z-0000000004"
# Taken an hour after the second by the names of transactions.
NAMED = "20261121T020000Z-0000000005"
# What ``third`` publishes.
THIRD = "20261121T020000Z-0000000003"
# When the first was captured, and the second.
T0 = 1_795_219_200_000
SECOND_AT = T0 + 3_600_000
# A file that only the second has.
NEWEST = "golden-totals-changelog/0/00000000000000000040-00000000000000000055-golden.parquet"

# Opens a copy of a golden repository by its name: the fixture ``golden``.
OpenGolden = Callable[..., RecoveryContext]


def checked(recovery: RecoveryContext, level: str, savepoint: str = maintenance.ALL) -> CheckReport:
    """A check with the Spark job's work done here."""
    ticket = maintenance.plan_check(recovery, savepoint=savepoint, level=level, run_id=f"run {level}")
    job = maintenance.plan_reading(recovery, ticket)
    if job.spec is None or job.result_key is None:
        return maintenance.conclude_check(recovery, ticket, None)
    files = recovery.artifacts.read(CheckSpec, job.spec).files
    done = CheckResult(files=tuple(check_file(recovery.repository, recovery.layout, wanted) for wanted in files), seconds=0)
    return maintenance.conclude_check(recovery, ticket, left(recovery, job.result_key, done))


def root(recovery: RecoveryContext) -> Path:
    """Where the objects of the golden application are, in a repository that is a directory."""
    return path_of(recovery, "golden")


def age(recovery: RecoveryContext, *, days: float, now: int) -> None:
    """Make every object look this old."""
    for path in root(recovery).rglob("*"):
        if path.is_file():
            os.utime(path, (now / 1000 - days * 86_400,) * 2)


def on(recovery: RecoveryContext, repository: Repository) -> RecoveryContext:
    """The context with another way to its repository."""
    return replace(
        recovery,
        repository=repository,
        savepoints=SavepointStore(repository, recovery.layout),
        safety=SavepointStore(repository, recovery.layout.safety),
        lock=ApplicationLock(repository, recovery.layout, recovery.clock),
    )


def path_of(recovery: RecoveryContext, key: str) -> Path:
    """Where an object is, in a repository that is a directory."""
    return Path(str(recovery.config.storage.path)) / key


def third(recovery: RecoveryContext) -> Path:
    """A savepoint that this release published, with its record; it shares the second one's files. Returns where its manifest is."""
    published = replace(recovery.savepoints.read(SECOND), savepoint_id=THIRD, parent_id=SECOND)
    return path_of(recovery, recovery.savepoints.publish(published))


def hold(recovery: RecoveryContext, number: int) -> None:
    """An entry of the log of holds."""
    entry = HoldEntry(kind="applied", purpose=HoldPurpose.COPY, run=str(number), at=SECOND_AT, mark=1, topics=(), clear=True)
    recovery.hold_log.append(entry)


def logs(recovery: RecoveryContext) -> dict[str, str]:
    """Three entries and more in every log of the application; returns each log's prefix."""
    for number in range(3):
        maintenance.pin(recovery, FIRST, keep=number == 1, requested_by="me", reason="")
        hold(recovery, number)
        journal = AppendLog(recovery.repository, recovery.layout.journal("20261121T030000Z-00000000aa"), JournalEntry)
        journal.append(JournalEntry(phase=Phase.OPENED, at=SECOND_AT, created=()))
        quiesce_record.begin(recovery, f"run {number}", QuiesceMode.PAUSE, ())
        snapshot = OffsetSnapshot(
            format_version=2,
            snapshot_id=SECOND,
            application_id="golden",
            cluster_id="c",
            taken_at=number,
            savepoint_id=None,
            requested_by="me",
            reason="",
            groups=(),
            unread={},
        )
        AppendLog(recovery.repository, recovery.layout.offset_snapshot(SECOND), OffsetSnapshot).append(snapshot)
    layout = recovery.layout
    return {
        "locks": layout.locks,
        "quiesce-records": layout.quiesce_records,
        "holds": layout.holds,
        "pins": layout.pins,
        "journal": layout.journal("20261121T030000Z-00000000aa"),
        "offsets": layout.offset_snapshot(SECOND),
    }
