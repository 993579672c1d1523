"""A restore that is killed after it has stopped the application, on a real broker: whatever runs next brings it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core.errors import ApplicationNotReady, LockHeld
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.operations import quiesce_record, restore, savepoint, scheduled_run
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications import fleet
from tests.support.applications.restore_steps import opened, saved
from tests.support.applications.savepoint_steps import begun, publish, take
from tests.support.applications.small import Small, asked, small_application
from tests.support.applications.unreachable import running
from tests.support.leases import later


@pytest.fixture
def small(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    with small_application(bootstrap, tmp_path, programs=fleet.programs(tmp_path / "instance")) as found:
        publish(found)
        found.recovery.application.start()
        yield found


def killed(recovery: RecoveryContext, *, after_saving: bool = False) -> restore.RestoreTicket:
    """A restore that ended without a word after the stop, or after the safety savepoint."""
    ticket = opened(recovery, asked(recovery, replace=True))
    if after_saving:
        saved(recovery, ticket)
    assert not running(recovery)
    return ticket


@pytest.mark.deep
@pytest.mark.fault("F3")
@pytest.mark.parametrize("after_saving", [False, True], ids=["after the stop", "after the safety savepoint"])
def test_the_next_savepoint_brings_it_back(small: Small, caplog: pytest.LogCaptureFixture, after_saving: bool) -> None:
    ticket = killed(small.recovery, after_saving=after_saving)
    after = later(small.recovery)
    with pytest.raises(LockHeld):
        begun(small.recovery)
    ticket_of_savepoint = begun(after, QuiesceMode.STOP)
    try:
        assert running(small.recovery)
        assert (
            f"one of {small.recovery.application_id} are brought back, which run {ticket.restore_id} has held in mode stop" in caplog.text
        )
        assert ticket_of_savepoint.running == ("one",)
        savepoint.quiesce(after, ticket_of_savepoint)
    finally:
        savepoint.resume(after, ticket_of_savepoint)
        savepoint.finish(after, ticket_of_savepoint)
    assert running(small.recovery)
    assert quiesce_record.left(small.recovery) is None
    take(small, recovery=after)


@pytest.mark.fault("F3")
def test_the_next_restore_knows_what_ran(small: Small) -> None:
    killed(small.recovery)
    after = later(small.recovery)
    second = opened(after, asked(after, replace=True))
    assert second.running == ("one",)
    assert restore.abandon(after, second).restarted
    assert running(small.recovery)


@pytest.mark.deep
def test_a_savepoint_says_so_while_it_cannot_be_brought_back(small: Small, tmp_path: Path) -> None:
    killed(small.recovery)
    broken, after = tmp_path / "instance.broken", later(small.recovery)
    broken.touch()
    for _ in range(2):
        with pytest.raises(ApplicationNotReady, match="it cannot be started"):
            begun(after)
        assert after.lock.holder() is None
    broken.unlink()
    savepoint.finish(after, begun(after))
    assert running(small.recovery)


@pytest.mark.deep
def test_an_application_that_a_run_has_stopped_for_good_is_not_brought_back(small: Small) -> None:
    recovery = small.recovery
    recovery.application.stop(timeout=1)
    begin = scheduled_run.begin(recovery, parse_limit("duration:PT1H"), run_id="run")
    killed(recovery)
    after = later(recovery)
    scheduled_run.end(after, begin)
    assert quiesce_record.left(after) is None
    take(small, recovery=after)
    assert not running(recovery)
