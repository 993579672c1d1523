"""The run that has the lock, with the progress that the driver of its Spark job writes itself."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.access import JobAccess
from spark_jobs.transforms.progress import Board, Doing
from streams_recovery.core.ids import new_id
from streams_recovery.core.status.under_way import UnderWay
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.under_way import under_way
from streams_recovery.storage.lock import ApplicationLock
from tests.support.repository.golden import OpenGolden

PLAN, RESULT = "load-spec", "load-result"


@dataclass(frozen=True)
class Written:
    """A note that a job answers."""

    what: str = "nothing"


class Context:
    """Plays a Spark context of one process."""

    def accumulator(self, value: Any, param: Any) -> Context:
        self.value = param.zero(value)
        return self


def driver(recovery: RecoveryContext, run: str) -> tuple[Board, str]:
    """That of a job of this run which has been loading for a while. As a step submits it: its result answers its specification."""
    spec = recovery.artifacts.write(run, PLAN, Written())
    access = JobAccess(connection=None, location=recovery.repository.location, credentials=None)
    board = Board(job="restore", access=access, result_key=recovery.artifacts.answer(spec.key, RESULT), show=lambda _: None)
    context = Context()
    board.begin(context, Doing(name="loading", records=100), 2)  # type: ignore[arg-type]
    context.value = {0: (40, 400)}
    report(board, recovery)
    return board, board.result_key


def report(board: Board, recovery: RecoveryContext, *, seconds: float = 60.0) -> None:
    now = time.monotonic() + seconds
    found = board.look(recovery.repository, now)
    assert found is not None
    board.tell(recovery.repository, found, now)


def seen(recovery: RecoveryContext, *, later: float = 0.0) -> UnderWay | None:
    return under_way(recovery.repository, recovery.layout, now=recovery.clock() + round(later * 1000))


def phases(found: UnderWay | None) -> list[tuple[str, int, int | None]]:
    assert found is not None
    return [(job.phase, job.records, job.percent) for job in found.jobs]


def test_nothing_is_under_way_while_nobody_has_the_lock(golden: OpenGolden) -> None:
    assert seen(golden("good")) is None


def test_the_run_that_has_the_lock_is_seen_with_the_job_that_it_waits_for(golden: OpenGolden) -> None:
    recovery = golden("good")
    recovery.lock.acquire("restore manual__1", lease_seconds=60, purpose="restore of golden")
    found = seen(recovery)
    assert found is not None
    assert (found.owner, found.purpose, found.jobs) == ("restore manual__1", "restore of golden", ())
    run = new_id(recovery.clock(), "manual__1")
    driver(recovery, new_id(recovery.clock(), "manual__2"))
    _, result = driver(recovery, run)
    assert phases(seen(recovery)) == [("loading", 40, 40)]
    recovery.repository.create(result, b"{}")
    assert phases(seen(recovery)) == [], "its job is over"


def test_a_driver_that_was_silent_for_long_is_no_progress(golden: OpenGolden) -> None:
    recovery = golden("good")
    recovery.lock.acquire("savepoint scheduled__1", lease_seconds=3_600, purpose="savepoint of golden")
    driver(recovery, new_id(recovery.clock(), "scheduled__1"))
    assert phases(seen(recovery, later=90)) == [("loading", 40, 40)]
    assert phases(seen(recovery, later=300)) == []


def test_a_restore_that_another_run_resumes_is_found_by_its_id(golden: OpenGolden) -> None:
    recovery = golden("good")
    restore_id = new_id(recovery.clock() - 3_600_000, "manual__1")
    recovery.lock.acquire("restore cli-9", lease_seconds=60, purpose=f"restore {restore_id}, resumed")
    driver(recovery, restore_id)
    assert phases(seen(recovery)) == [("loading", 40, 40)]


def test_a_lock_that_cannot_be_read_breaks_no_page(golden: OpenGolden) -> None:
    recovery = golden("good")
    recovery.repository.create(f"{recovery.layout.locks}000000000001.json", b"junk")
    assert seen(recovery) is None


def test_the_newest_report_of_a_job_counts(golden: OpenGolden) -> None:
    recovery = golden("good")
    recovery.lock.acquire("restore manual__1", lease_seconds=60, purpose="restore of golden")
    board, _ = driver(recovery, new_id(recovery.clock(), "manual__1"))
    board.phases[0].channel.finished.value = {0: (40, 400), 1: (50, 500)}
    board.phases[0] = replace(board.phases[0])
    report(board, recovery, seconds=200.0)
    assert phases(seen(recovery)) == [("loading", 90, 90)]


def test_a_run_has_the_lock_since_it_took_it_and_not_since_it_last_renewed_it(golden: OpenGolden) -> None:
    recovery, clock = golden("good"), [1_000]
    lock = ApplicationLock(recovery.repository, recovery.layout, lambda: clock[0])
    ticket = lock.acquire("restore manual__1", lease_seconds=60, purpose="restore of golden")
    clock[0] = 31_000
    lock.renew(ticket, lease_seconds=60)
    found = under_way(recovery.repository, recovery.layout, now=32_000)
    assert found is not None
    assert found.since == 1_000
