"""A restore that is killed after it has stopped the application, on a real broker: whatever runs next brings it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import ApplicationNotReady, LockHeld
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.operations import quiesce_record, restore, savepoint, scheduled_run
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.storage.lock import ApplicationLock
from tests.integration.restoring import opened, saved
from tests.integration.small import Small, asked, begun, publish, small_application, take
from tests.spark import fleet


@pytest.fixture
def small(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    with small_application(bootstrap, tmp_path, programs=fleet.programs(tmp_path / "instance")) as found:
        publish(found)
        found.bench.application.start()
        yield found


def running(bench: Workbench) -> bool:
    return [status.state.value for status in bench.application.status()] == ["running"]


def later(bench: Workbench) -> Workbench:
    """The bench when the lease of whoever is dead has ended."""

    def clock() -> int:
        return bench.clock() + (LEASE_SECONDS + 1) * 1000

    return replace(bench, clock=clock, lock=ApplicationLock(bench.repository, bench.layout, clock))


def killed(bench: Workbench, *, after_saving: bool = False) -> restore.RestoreTicket:
    """A restore that ended without a word after the stop, or after the safety savepoint."""
    ticket = opened(bench, asked(bench, replace=True))
    if after_saving:
        saved(bench, ticket)
    assert not running(bench)
    return ticket


@pytest.mark.fault("F3")
@pytest.mark.parametrize("after_saving", [False, True], ids=["after the stop", "after the safety savepoint"])
def test_the_next_savepoint_brings_it_back(small: Small, caplog: pytest.LogCaptureFixture, after_saving: bool) -> None:
    ticket = killed(small.bench, after_saving=after_saving)
    after = later(small.bench)
    with pytest.raises(LockHeld):
        begun(small.bench)
    ticket_of_savepoint = begun(after, QuiesceMode.STOP)
    try:
        assert running(small.bench)
        assert f"one of {small.bench.application_id} are brought back, which run {ticket.restore_id} has held in mode stop" in caplog.text
        assert ticket_of_savepoint.running == ("one",)
        savepoint.quiesce(after, ticket_of_savepoint)
    finally:
        savepoint.resume(after, ticket_of_savepoint)
        savepoint.finish(after, ticket_of_savepoint)
    assert running(small.bench)
    assert quiesce_record.left(small.bench) is None
    take(small, bench=after)


@pytest.mark.fault("F3")
def test_the_next_restore_knows_what_ran(small: Small) -> None:
    killed(small.bench)
    after = later(small.bench)
    second = opened(after, asked(after, replace=True))
    assert second.running == ("one",)
    assert restore.abandon(after, second).restarted
    assert running(small.bench)


def test_a_savepoint_says_so_while_it_cannot_be_brought_back(small: Small, tmp_path: Path) -> None:
    killed(small.bench)
    broken, after = tmp_path / "instance.broken", later(small.bench)
    broken.touch()
    for _ in range(2):
        with pytest.raises(ApplicationNotReady, match="it cannot be started"):
            begun(after)
        assert after.lock.holder() is None
    broken.unlink()
    savepoint.finish(after, begun(after))
    assert running(small.bench)


def test_an_application_that_a_run_has_stopped_for_good_is_not_brought_back(small: Small) -> None:
    bench = small.bench
    bench.application.stop(timeout=1)
    begin = scheduled_run.begin(bench, parse_limit("duration:PT1H"), run_id="run")
    killed(bench)
    after = later(bench)
    scheduled_run.end(after, begin)
    assert quiesce_record.left(after) is None
    take(small, bench=after)
    assert not running(bench)
