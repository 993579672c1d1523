"""A task that Airflow has ended goes on for seconds, and one that was frozen goes on much later: what the teardown of its run has brought back, or the next
run has made, stays as it is.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms.load import Share
from streams_recovery.core.errors import ApplicationRunning, LockLost, Refused
from streams_recovery.core.jobs.spec import RestoreSpec
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.waiting import RateLimits, poll
from streams_recovery.operations import quiesce_record, restore, savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import unfinished_restore
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository
from tests.support.applications import fleet
from tests.support.applications.restore_steps import end, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import begun, publish
from tests.support.applications.small import Small, asked, small_application
from tests.support.applications.unreachable import running
from tests.support.project import PROJECT

End = Callable[[RecoveryContext, savepoint.Ticket], object]


@dataclass
class Teardown:
    """It is taken once, right behind the ``number``-th entry below ``part`` of a step that goes on."""

    part: str
    takes: Callable[[], object]
    number: int = 1
    seen: int = field(default=0, init=False)
    left: list[Any] = field(default_factory=list, init=False)


class GoesOn(Repository):
    """A real repository, of a step that its run does not wait for any more."""

    def __init__(self, real: Repository, teardown: Teardown) -> None:
        super().__init__(real.location)
        self.teardown = teardown

    def create(self, key: str, data: bytes, *, previous: str | None = None) -> None:
        super().create(key, data, previous=previous)
        self.teardown.seen += self.teardown.part in key
        if self.teardown.seen == self.teardown.number and not self.teardown.left:
            self.teardown.left.append(self.teardown.takes())


def during(recovery: RecoveryContext, teardown: Teardown) -> RecoveryContext:
    """The context of the step during which this teardown is taken."""
    repository = GoesOn(recovery.repository, teardown)
    return replace(recovery, repository=repository, lock=ApplicationLock(repository, recovery.layout, recovery.clock))


@pytest.fixture
def small(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """One that runs, with a savepoint."""
    with small_application(bootstrap, tmp_path, programs=fleet.programs(tmp_path / "instance")) as found:
        publish(found)
        found.recovery.application.start()
        yield found


def topic_ids(small: Small) -> dict[str, str]:
    return {name: found.topic_id for name, found in small.recovery.cluster.describe_topics(small.topics).items()}


@pytest.mark.fault("F113")
def test_no_topic_is_deleted_under_an_application_that_was_started_again(small: Small) -> None:
    recovery, before = small.recovery, topic_ids(small)
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)
    teardown = Teardown("/locks/", lambda: restore.abandon(recovery, ticket))
    with pytest.raises(LockLost):
        restore.prepare(during(recovery, teardown), ticket)
    assert [left.restarted for left in teardown.left] == [True]
    assert running(recovery)
    assert (topic_ids(small), unfinished_restore(recovery)) == (before, None)


@pytest.mark.deep
@pytest.mark.fault("F113")
def test_where_it_was_about_to_delete_the_application_stays_down(small: Small) -> None:
    recovery, before = small.recovery, topic_ids(small)
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)
    teardown = Teardown("/journal/", lambda: restore.abandon(recovery, ticket))
    with pytest.raises(LockLost):
        restore.prepare(during(recovery, teardown), ticket)
    assert [(left.restarted, left.phase) for left in teardown.left] == [(False, "destroying")]
    assert not running(recovery)
    assert (topic_ids(small), unfinished_restore(recovery)) == (before, ticket.restore_id)


@pytest.mark.fault("F16")
def test_a_step_that_wakes_late_deletes_nothing_of_the_run_that_went_on(small: Small) -> None:
    recovery = small.recovery
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)

    def resumed() -> dict[str, str]:
        restore.abandon(recovery, ticket)
        again = restore.resume(recovery, ticket.restore_id, run_id="again", approved_hash=ticket.plan_hash, take_over=False)
        assert loaded(recovery, again) == 7
        return topic_ids(small)

    # Its third proof of the lock is the last one before it deletes.
    woken = Teardown("/locks/", resumed, number=3)
    with pytest.raises(Refused, match="already exists"):
        restore.prepare(during(recovery, woken), ticket)
    assert [topic_ids(small)] == woken.left
    assert end(small) > 0


@pytest.mark.deep
@pytest.mark.fault("F113")
def test_the_teardown_reads_how_far_it_came_once_the_step_has_lost_the_lock(small: Small) -> None:
    recovery = small.recovery
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)
    step = Teardown("/locks/", lambda: restore.prepare(recovery, ticket))
    with pytest.raises(LockLost):
        restore.abandon(during(recovery, step), ticket)
    assert running(recovery) is False


@pytest.mark.deep
@pytest.mark.fault("F113")
def test_a_restore_stops_nothing_that_its_end_has_left_running(small: Small) -> None:
    recovery = small.recovery
    request = asked(recovery, replace=True)
    approved = restore.plan(recovery, request).hash
    ticket = restore.open_restore(recovery, request, run_id="r", requested_by="test", approved_hash=approved)
    teardown = Teardown("/quiesce-records/", lambda: restore.abandon(recovery, ticket))
    with pytest.raises(LockLost):
        restore.stop(during(recovery, teardown), ticket)
    assert len(teardown.left) == 1
    assert running(recovery)


@pytest.mark.fault("F113")
@pytest.mark.parametrize("ends", [savepoint.resume, savepoint.finish], ids=["let go", "over"])
def test_a_savepoint_stops_nothing_once_its_run_has_let_go(small: Small, ends: End) -> None:
    recovery = small.recovery
    ticket = begun(recovery)
    teardown = Teardown("/quiesce-records/", lambda: ends(recovery, ticket))
    with pytest.raises(LockLost):
        savepoint.quiesce(during(recovery, teardown), ticket)
    assert len(teardown.left) == 1
    assert running(recovery)


@pytest.mark.fault("F113")
def test_nothing_is_started_once_the_teardown_has_left_the_application_down(small: Small) -> None:
    recovery = small.recovery
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    verified(recovery, ticket)
    restore.set_offsets(recovery, ticket)
    restore.wipe(recovery, ticket)
    teardown = Teardown("/locks/", lambda: restore.abandon(recovery, ticket))
    with pytest.raises(LockLost):
        restore.start(during(recovery, teardown), ticket)
    assert [left.phase for left in teardown.left] == ["wiped"]
    assert not running(recovery)


LOAD = """
import pickle, sys
from functools import partial
from spark_jobs.fencing import awake
from spark_jobs.transforms import load

load.awake = partial(awake, 2.0)
load.load_share(*pickle.load(open(sys.argv[1], "rb")))
"""


@pytest.mark.fault("F112")
def test_a_task_that_was_frozen_ends_when_it_wakes_and_sends_nothing_of_what_it_held(small: Small, tmp_path: Path) -> None:
    recovery = small.recovery
    ticket = opened(recovery, asked(recovery, replace=True))
    saved(recovery, ticket)
    restore.prepare(recovery, ticket)
    job = restore.plan_load(recovery, ticket)
    assert job.spec is not None
    partitions = recovery.artifacts.read(RestoreSpec, job.spec).partitions
    share = Share(partitions=partitions, throttle=RateLimits(records_per_second=2), stall_seconds=120)
    access = JobAccess(connection=recovery.connection, location=recovery.repository.location, credentials=None)
    (tmp_path / "share").write_bytes(pickle.dumps((share, access)))

    def there() -> int:
        return sum(recovery.cluster.high_watermarks([wanted.tp for wanted in partitions]).values())

    task = subprocess.Popen([sys.executable, "-c", LOAD, str(tmp_path / "share")], cwd=PROJECT)
    try:
        assert poll(lambda: there() or None, seconds=60, interval=0.05)
        task.send_signal(signal.SIGSTOP)
        time.sleep(3)
        before = there()
        task.send_signal(signal.SIGCONT)
        assert task.wait(60) == 75
        assert there() == before < sum(wanted.rows for wanted in partitions)
    finally:
        task.kill()
        task.wait()


@pytest.mark.fault("F113")
@pytest.mark.deep
@pytest.mark.parametrize("mode", [QuiesceMode.STOP, QuiesceMode.LIVE], ids=str)
def test_a_savepoint_holds_nothing_whose_run_has_let_go_before_the_hold_was_noted(small: Small, mode: QuiesceMode) -> None:
    recovery = small.recovery
    ticket = replace(begun(recovery), mode=mode, fallback=QuiesceMode.STOP)
    assert savepoint.resume(recovery, ticket).instances
    assert savepoint.resume(recovery, ticket).instances, "it may be tried again"
    with pytest.raises(LockLost, match="was let go while savepoint"):
        savepoint.quiesce(recovery, replace(ticket, mode=QuiesceMode.STOP))
    assert running(recovery)
    assert quiesce_record.left(recovery) is None
    savepoint.finish(recovery, ticket)
    publish(small)


class StopsLate:
    """The application of a step that goes on: the teardown of its run is at work right before, or while, its instances are stopped."""

    def __init__(self, real: Any, teardown: Callable[[], object], *, after: bool) -> None:
        self.real, self.teardown, self.after = real, teardown, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def stop(self, *, timeout: float) -> Any:
        if not self.after:
            self.teardown()
        report = self.real.stop(timeout=timeout)
        if self.after:
            self.teardown()
        return report


@pytest.mark.fault("F113")
@pytest.mark.deep
@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
def test_what_is_held_in_the_moment_in_which_it_is_let_go_works_again(small: Small, after: bool) -> None:
    recovery = small.recovery
    ticket = replace(begun(recovery), mode=QuiesceMode.STOP)
    late: Any = StopsLate(recovery.application, lambda: savepoint.resume(recovery, ticket), after=after)
    with pytest.raises((LockLost, ApplicationRunning)):
        savepoint.quiesce(replace(recovery, application=late), ticket)
    assert running(recovery)
    assert quiesce_record.left(recovery) is None
