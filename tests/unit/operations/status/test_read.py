"""The newest status and the detail of a savepoint, read from a repository.

The run that has the lock, with the progress that the driver of its Spark job writes itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms.progress import Board, Doing
from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.status.look import UnderWay
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import savepoint_detail
from streams_recovery.core.words import new_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.read import StoredStatus, detail, newest, under_way
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.statuses import report
from tests.support.repository.golden import COMPACTED, OpenGolden

LAYOUT = Layout("orders")


def shown(found: StoredStatus | None) -> StatusReport:
    assert found is not None
    return found.report


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))


def test_the_newest_status_comes_back_as_it_was_written(repository: Repository) -> None:
    assert newest(repository, LAYOUT, None) is None
    log = AppendLog(repository, LAYOUT.status, StatusReport)
    log.append(report())
    second = replace(report(), taken_at=report().taken_at + 60_000)
    log.append(second)
    assert shown(newest(repository, LAYOUT, None)) == second
    log.prune(1)
    assert shown(newest(repository, LAYOUT, None)) == second


def test_a_status_that_is_known_is_not_read_again(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.status, StatusReport)
    log.append(report())
    known = newest(repository, LAYOUT, None)
    assert known is not None
    assert newest(repository, LAYOUT, known) is known
    log.append(report())
    assert newest(repository, LAYOUT, known) is not known


def test_a_status_of_another_release_hides_no_older_one(repository: Repository) -> None:
    log = AppendLog(repository, LAYOUT.status, StatusReport)
    log.append(report())
    repository.create(f"{LAYOUT.status}000000000002.json", b'{"name": "orders"}')
    known = newest(repository, LAYOUT, None)
    assert shown(known) == report()
    assert newest(repository, LAYOUT, known) is known


def test_where_no_entry_is_a_status_that_is_damage(repository: Repository) -> None:
    repository.create(f"{LAYOUT.status}000000000001.json", b'{"name": "orders"}')
    with pytest.raises(Damaged):
        newest(repository, LAYOUT, None)


def test_publishing_writes_what_people_look_at(repository: Repository) -> None:
    manifest = manifest_with(partition([copied(0, 5)], [], end=5))
    SavepointStore(repository, LAYOUT).publish(manifest)
    assert detail(repository, LAYOUT, manifest.savepoint_id) == savepoint_detail(manifest)
    assert detail(repository, LAYOUT, "20261121T012345Z-aaaaaaaaaa") is None


def test_a_savepoint_is_published_although_something_else_is_in_the_place_of_its_detail(repository: Repository) -> None:
    manifest = manifest_with(partition([copied(0, 5)], [], end=5))
    repository.create(LAYOUT.detail(manifest.savepoint_id), b"{}")
    store = SavepointStore(repository, LAYOUT)
    store.publish(manifest)
    store.publish(manifest)
    assert store.ids() == [manifest.savepoint_id]
    with pytest.raises(Damaged):
        detail(repository, LAYOUT, manifest.savepoint_id)


def test_what_is_left_of_an_expired_savepoint_goes_with_its_detail(repository: Repository) -> None:
    manifest = manifest_with(partition([copied(0, 5)], [], end=5))
    store = SavepointStore(repository, LAYOUT)
    store.publish(manifest)
    store.forget(manifest.savepoint_id, [])
    assert detail(repository, LAYOUT, manifest.savepoint_id) is None


def test_a_savepoint_from_before_details_has_none(golden: OpenGolden) -> None:
    recovery = golden("compacted")
    assert detail(recovery.repository, recovery.layout, COMPACTED) is None


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
    tell(board, recovery)
    return board, board.result_key


def tell(board: Board, recovery: RecoveryContext, *, seconds: float = 60.0) -> None:
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
    tell(board, recovery, seconds=200.0)
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
