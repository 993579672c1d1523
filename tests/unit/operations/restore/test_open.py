"""An application that a restore has stopped runs again when the restore fails before it destroys anything. No broker answers here: that is what fails."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.application.factory import open_application
from streams_recovery.application.port import StaleState, WipeMark, WipeReport
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import (
    HALF_WAY,
    ApplicationNotReady,
    BrokerUnavailable,
    Damaged,
    LockHeld,
    NotFound,
    RecoveryError,
    Refused,
)
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.topic_holds.log import HoldPurpose, TopicHold
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.operations import quiesce_record, ready, restore, topic_holds, unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import TICKET, note
from streams_recovery.operations.restore.start import WIPED, require_fresh_state
from streams_recovery.workflows.restore import ABANDON, FINISH, OPEN_RESTORE, RESET_CONSUMER_GROUP
from tests.support.applications.unreachable import RUN, opened, running, stopped
from tests.support.leases import later


def left(recovery: RecoveryContext, ticket: restore.RestoreTicket, say: Callable[[str], None]) -> None:
    """What the command line does with a restore whose next step fails."""

    def fails(*_: object) -> None:
        raise Damaged("this step fails", next_step="none")

    steps = (replace(RESET_CONSUMER_GROUP, call=fails), ABANDON)
    runner = Runner(recovery=recovery, submitter=NoJobs(), say=say, sleep=lambda _: None)
    with pytest.raises(Damaged, match="this step fails"):
        runner.take(steps, {OPEN_RESTORE.name: ticket}).require(FINISH)


class NoJobs:
    """See Submitter. For steps that need none."""

    def submit(self, job: SparkJob) -> ArtifactRef:
        raise AssertionError(job.name)


def guard(recovery: RecoveryContext) -> None:
    """A topic under a hold that only a broker can release."""
    hold = TopicHold(topic="app-totals-changelog", topic_id="x")
    topic_holds.record(recovery, "applied", HoldPurpose.COPY, "some run", 1, (hold,))


@pytest.mark.fault("F6")
def test_the_application_is_started_before_anything_that_may_fail(recovery: RecoveryContext) -> None:
    ticket = stopped(recovery)
    guard(recovery)
    with pytest.raises(BrokerUnavailable):
        restore.abandon(recovery, ticket)
    assert running(recovery)
    assert recovery.lock.holder() is None, "the lock is given back whatever fails"
    assert quiesce_record.left(recovery) is None


@pytest.mark.fault("F20")
def test_an_application_that_could_not_be_started_is_started_by_the_retry(recovery: RecoveryContext, tmp_path: Path) -> None:
    ticket = stopped(recovery)
    broken = tmp_path / "instance.broken"
    broken.touch()
    with pytest.raises(ApplicationNotReady, match="it cannot be started"):
        restore.abandon(recovery, ticket)
    assert recovery.lock.holder() is None
    broken.unlink()
    left = restore.abandon(recovery, ticket)
    assert (left.restarted, left.next_step, running(recovery)) == (True, "the application goes on as it was", True)
    assert recovery.lock.holder() is None


def test_from_the_command_line_it_is_tried_again_and_told(recovery: RecoveryContext, tmp_path: Path) -> None:
    ticket = stopped(recovery)
    broken, told = tmp_path / "instance.broken", list[str]()
    broken.touch()
    left(recovery, ticket, told.append)
    assert [text.split(": ")[0] for text in told[:3]] == [f"abandon, attempt {number} of 4" for number in (1, 2, 3)]
    assert told[3].startswith("abandon failed: ")
    assert told[4:] == ["what could not be put back stays on record: the next savepoint of the application tries again"]

    def say(text: str) -> None:
        told.append(text)
        broken.unlink(missing_ok=True)

    told.clear()
    left(recovery, ticket, say)
    assert len(told) == 2
    assert told[1] == "stopped in phase opened: the application goes on as it was"
    assert running(recovery)


def test_a_lease_that_ended_is_no_reason_to_leave_it_down(recovery: RecoveryContext) -> None:
    ticket = stopped(recovery)
    after = later(recovery)
    after.lock.release(after.lock.acquire("somebody", lease_seconds=60, purpose="a test"))
    assert restore.abandon(after, ticket).restarted
    assert running(recovery)


@pytest.mark.fault("F107")
def test_state_that_is_older_than_the_wipe_of_this_restore_stops_it_and_what_was_not_seen_is_not_called_young(
    recovery: RecoveryContext, tmp_path: Path
) -> None:
    ticket, own = stopped(recovery), tmp_path / "state" / "app"
    assert require_fresh_state(recovery, ticket, started=False) is None, "nothing was wiped"
    (own / "0_0").mkdir(parents=True)
    mark = WipeMark(place=str(own), at=time.time_ns() + 1_000_000)
    for marks in ((), (replace(mark, place=str(tmp_path / "nowhere")),)):
        left = WipeReport(removed=(), remaining=(), marks=marks)
        note(recovery, ticket, Phase.WIPED, result=recovery.artifacts.write(ticket.restore_id, WIPED, left))
        seen = require_fresh_state(recovery, ticket, started=True)
        assert seen is not None
        assert (seen.fresh, len(seen.unseen)) == ((), 1)
    left = WipeReport(removed=(), remaining=(), marks=(mark,))
    note(recovery, ticket, Phase.WIPED, result=recovery.artifacts.write(ticket.restore_id, WIPED, left))
    for started, again in ((False, "resume the restore"), (True, "`replace`")):
        with pytest.raises(StaleState, match=str(own)) as caught:
            require_fresh_state(recovery, ticket, started=started)
        assert again in caught.value.next_step
        assert len(caught.value.facts["stale"]) == 1


def test_another_run_s_application_is_not_touched(recovery: RecoveryContext) -> None:
    ticket = stopped(recovery)
    after = later(recovery)
    after.lock.acquire("somebody", lease_seconds=60, purpose="a test")
    with pytest.raises(LockHeld, match="somebody holds the lock"):
        restore.abandon(after, ticket)
    assert not running(recovery)


@pytest.mark.fault("F3")
def test_the_next_run_brings_back_what_a_restore_that_was_killed_has_stopped(recovery: RecoveryContext) -> None:
    ticket = stopped(recovery)
    left = quiesce_record.left(recovery)
    assert left is not None
    assert (left.run, left.instances) == (ticket.restore_id, ("one",))
    assert quiesce_record.resume_abandoned(recovery) == ("one",)
    assert (running(recovery), quiesce_record.left(recovery)) == (True, None)


@pytest.mark.fault("F3")
@pytest.mark.parametrize("phase", [Phase.DESTROYING, Phase.WIPED, Phase.STARTED, Phase.CLOSED])
def test_but_nobody_starts_one_whose_state_it_had_begun_to_replace(recovery: RecoveryContext, phase: Phase) -> None:
    ticket = stopped(recovery)
    note(recovery, ticket, phase)
    assert quiesce_record.left(recovery) is None
    assert quiesce_record.resume_abandoned(recovery) == ()
    assert not restore.abandon(recovery, ticket).restarted
    assert not running(recovery)


def test_nor_one_that_was_brought_back_in_another_way(recovery: RecoveryContext) -> None:
    ticket = stopped(recovery)
    note(recovery, ticket, Phase.SAVED)
    recovery.lock.release(ticket.lock)
    unfinished.dismiss(recovery, ticket.restore_id)
    assert quiesce_record.left(recovery) is None


def test_what_did_not_run_is_not_started(recovery: RecoveryContext) -> None:
    recovery.application.stop(timeout=1)
    ticket = opened(recovery, running=())
    with pytest.raises(BrokerUnavailable):
        restore.stop(recovery, ticket)
    assert quiesce_record.left(recovery) is None
    assert not restore.abandon(recovery, ticket).restarted
    assert not running(recovery)


def test_what_somebody_has_started_since_the_restore_was_opened_is_brought_back_too(recovery: RecoveryContext) -> None:
    ticket = opened(recovery, running=())
    with pytest.raises(BrokerUnavailable):
        restore.stop(recovery, ticket)
    assert restore.abandon(recovery, ticket).restarted
    assert running(recovery)


def test_after_a_later_restore_has_begun_to_destroy_the_earlier_one_starts_nothing(recovery: RecoveryContext) -> None:
    ticket = stopped(recovery)
    recovery.lock.release(ticket.lock)
    second = opened(recovery, "20261121T110000Z-bbbbbbbbbb")
    note(recovery, second, Phase.DESTROYING)
    recovery.lock.release(second.lock)
    assert not restore.abandon(recovery, ticket).restarted
    assert not running(recovery)


@pytest.mark.parametrize(
    ("phase", "resumes"), [(Phase.STOPPED, False), (Phase.DESTROYING, True), (Phase.STARTED, True), (Phase.CLOSED, False)]
)
def test_the_command_that_goes_on_is_named_only_where_there_is_something_to_go_on_with(
    recovery: RecoveryContext, phase: Phase, *, resumes: bool
) -> None:
    ticket = opened(recovery, plan_hash="ab12")
    note(recovery, ticket, phase)
    left = restore.abandon(recovery, ticket)
    command = f"streams-recovery resume app {ticket.restore_id} --approve ab12"
    assert left.commands == ((command,) if resumes else ())
    assert "streams-recovery" not in left.next_step


def test_a_terminal_shows_that_command_on_a_line_of_its_own(recovery: RecoveryContext) -> None:
    ticket, told = opened(recovery, plan_hash="ab12"), list[str]()
    note(recovery, ticket, Phase.DESTROYING)
    left(recovery, ticket, told.append)
    assert told[-1] == f"    streams-recovery resume app {ticket.restore_id} --approve ab12"


def test_an_unknown_restore_is_refused_with_the_command_that_takes_the_newest_one(recovery: RecoveryContext) -> None:
    with pytest.raises(NotFound) as caught:
        restore.plan_left(recovery, "20261121T000000Z-0123456789")
    assert caught.value.facts == {"restore": "20261121T000000Z-0123456789"}
    assert caught.value.commands == ("streams-recovery resume app",)
    assert caught.value.exit_code == NotFound.exit_code == 4


def test_an_application_that_does_not_come_to_work_is_waited_for_by_the_same_command(
    recovery: RecoveryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "poll_falling", lambda *_, **__: None)
    with pytest.raises(ApplicationNotReady) as caught:
        ready.await_at_work(recovery, {}, again="the command")
    assert "one: running" in str(caught.value.facts["states"])
    assert (caught.value.commands, caught.value.exit_code) == (("the command",), 7)


def test_local_state_that_stays_is_removed_by_hand_and_then_the_restore_is_resumed(recovery: RecoveryContext) -> None:
    ticket = opened(recovery, plan_hash="ab12")
    recovery.application.stop(timeout=1)
    note(recovery, ticket, Phase.OFFSETS_SET)
    says = [sys.executable, "-c", 'print(\'{"removed": [], "remaining": ["/state/app"]}\')']
    runs = recovery.config.runs
    assert runs.command is not None
    changed = runs.model_copy(update={"command": runs.command.model_copy(update={"wipe": says})})
    stays = replace(recovery, application=open_application(changed, recovery.application_id))  # type: ignore[arg-type]
    with pytest.raises(Damaged, match="local state remains in /state/app") as error:
        restore.wipe(stays, ticket)
    assert error.value.facts["remaining"] == ("/state/app",)
    assert error.value.commands == (f"streams-recovery resume app {ticket.restore_id} --approve ab12",)
    assert restore.phase_of(recovery, ticket) is Phase.OFFSETS_SET


@pytest.mark.parametrize("phase", [Phase.SAVED, Phase.DESTROYING, Phase.STARTED])
def test_one_that_is_at_work_is_not_dismissed(recovery: RecoveryContext, phase: Phase) -> None:
    ticket = opened(recovery)
    note(recovery, ticket, phase)
    with pytest.raises(LockHeld, match=f"{RUN} holds the lock"):
        unfinished.dismiss(recovery, ticket.restore_id)
    assert restore.phase_of(recovery, ticket) is phase
    recovery.lock.release(ticket.lock)
    unfinished.dismiss(recovery, ticket.restore_id)
    assert restore.phase_of(recovery, ticket) is Phase.CLOSED
    assert recovery.lock.holder() is None


def test_one_that_was_killed_at_its_very_end_gives_the_lock_back(recovery: RecoveryContext) -> None:
    ticket = opened(recovery)
    note(recovery, ticket, Phase.CLOSED)
    restore.abandon(recovery, ticket)
    assert recovery.lock.holder() is None


@pytest.mark.parametrize(
    ("phase", "whole"), [(Phase.DESTROYING, False), (Phase.WIPED, False), (Phase.STARTED, True), (Phase.RECOVERED, True)]
)
def test_state_on_which_the_application_was_started_is_saved_although_that_restore_is_not_finished(
    recovery: RecoveryContext, phase: Phase, *, whole: bool
) -> None:
    first = opened(recovery)
    note(recovery, first, phase)
    recovery.lock.release(first.lock)
    second = opened(recovery, "20261121T110000Z-bbbbbbbbbb", after_unfinished=first.restore_id)
    note(recovery, second, Phase.STOPPED)
    why = restore.save_state(recovery, second).none_because
    assert why is not None
    assert why.startswith("it could not be taken: " if whole else f"restore {first.restore_id} left only half of a state")


def test_single_topics_that_were_left_half_way_leave_a_whole_state_which_is_saved_before_it_is_replaced(recovery: RecoveryContext) -> None:
    first = opened(recovery, request=restore.RestoreTopics(reason="test", topics=("in",)))
    note(recovery, first, Phase.CREATED)
    recovery.lock.release(first.lock)
    with pytest.raises(Refused, match="its state is no savepoint") as refused:
        unfinished.refuse_if_unfinished(recovery)
    assert "undo" not in refused.value.next_step, (
        "it has no safety savepoint: an undo would bring back the state from before another restore"
    )
    second = opened(recovery, "20261121T110000Z-bbbbbbbbbb", after_unfinished=first.restore_id)
    note(recovery, second, Phase.STOPPED)
    with pytest.raises(RecoveryError):
        restore.save_state(recovery, second)
    assert restore.phase_of(recovery, second) is Phase.STOPPED


@pytest.mark.fault("F107")
def test_what_has_run_on_older_state_is_not_resumed_nor_saved_as_a_state(recovery: RecoveryContext, tmp_path: Path) -> None:
    ticket, own = stopped(recovery), tmp_path / "state" / "app"
    recovery.artifacts.write_once(ticket.restore_id, TICKET, ticket)
    (own / "0_0").mkdir(parents=True)
    wiped = WipeReport(removed=(), remaining=(), marks=(WipeMark(place=str(own), at=time.time_ns() + 1_000_000),))
    note(recovery, ticket, Phase.WIPED, result=recovery.artifacts.write(ticket.restore_id, WIPED, wiped))
    note(recovery, ticket, Phase.STARTED)
    for _ in range(2):
        with pytest.raises(StaleState, match=str(own)):
            require_fresh_state(recovery, ticket, started=True)
    left = restore.abandon(recovery, ticket)
    assert (left.commands, "resume" in left.next_step) == ((), False)
    # Gone by hand: nothing shows any more what the changelogs got meanwhile.
    (own / "0_0").rmdir()
    with pytest.raises(Refused, match="cannot go on: local state of app is older than its wipe") as refused:
        restore.plan_left(recovery, ticket.restore_id)
    assert "restore again with `replace`" in refused.value.next_step
    second = opened(recovery, "20261121T110000Z-bbbbbbbbbb", after_unfinished=ticket.restore_id)
    note(recovery, second, Phase.STOPPED)
    assert f"restore {ticket.restore_id} left only half of a state" in str(restore.save_state(recovery, second).none_because)


@pytest.mark.parametrize(
    ("phase", "code"), [(Phase.OPENED, BrokerUnavailable.exit_code), (Phase.DESTROYING, HALF_WAY), (Phase.STARTED, HALF_WAY)]
)
def test_the_exit_code_of_a_restore_that_is_left_half_way_is_one_of_its_own(recovery: RecoveryContext, phase: Phase, code: int) -> None:
    ticket = opened(recovery)
    note(recovery, ticket, phase)
    with pytest.raises(RecoveryError) as caught:
        runs.carry_out(Runner(recovery=recovery, submitter=NoJobs(), say=lambda _: None, sleep=lambda _: None), ticket)
    assert caught.value.exit_code == code
    assert type(caught.value).exit_code != HALF_WAY
