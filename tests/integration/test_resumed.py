"""A restore that failed late is resumed: behind its offsets, behind its wipe, and after the application has worked for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.application.port import StaleState, WipeMark, WipeReport
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ApplicationNotReady, Damaged, RecoveryError, Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operations.restore.open import TICKET, note
from streams_recovery.operations.restore.start import WIPED
from tests.support.applications.pair import Here, programs
from tests.support.applications.rebuilds import cleared, rebuild
from tests.support.applications.restore_steps import end, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, small_application
from tests.support.applications.topic_records import commit, produce


@pytest.fixture
def small(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """One that is at work once it was started, with a savepoint."""
    with small_application(bootstrap, tmp_path, programs=programs(tmp_path, "one")) as found:
        publish(found)
        yield found


def resumed(recovery: RecoveryContext, ticket: RestoreTicket) -> RestoreTicket:
    """What failed, under a lock of its own again."""
    restore.abandon(recovery, ticket)
    return restore.resume(recovery, ticket.restore_id, run_id="again", approved_hash=ticket.plan_hash, take_over=False)


def begun(small: Small) -> tuple[RestoreTicket, restore.StartSummary]:
    """A restore whose application was started."""
    ticket = wiped(small)
    return ticket, restore.start(small.recovery, ticket)


def wiped(small: Small) -> RestoreTicket:
    """A restore whose application is started next."""
    recovery = small.recovery
    recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    ticket = opened(recovery, asked(recovery))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    verified(recovery, ticket)
    restore.set_offsets(recovery, ticket)
    restore.wipe(recovery, ticket)
    return ticket


def failed(small: Small) -> RestoreTicket:
    """A restore whose application was started, has processed all of its input, and then failed."""
    ticket, _ = begun(small)
    commit(small.recovery, {small.input: 5})
    small.recovery.application.stop(timeout=1)
    return ticket


@pytest.mark.deep
@pytest.mark.fault("F3")
@pytest.mark.parametrize("phase", [Phase.OFFSETS_SET, Phase.WIPED])
def test_a_rebuild_that_broke_off_behind_its_offsets_is_resumed_to_its_end(small: Small, phase: Phase) -> None:
    recovery = small.recovery
    ticket = cleared(recovery, rebuild(recovery))
    restore.verify_cleared(recovery, ticket, verified(recovery, ticket))
    restore.set_offsets(recovery, ticket)
    if phase is Phase.WIPED:
        restore.wipe(recovery, ticket)
    assert restore.phase_of(recovery, ticket) is phase
    again = resumed(recovery, ticket)

    def say(text: str) -> None:
        if text.startswith("started"):
            commit(recovery, {small.input: 5})

    report = runs.carry_out(Runner(recovery=recovery, submitter=Here(recovery), say=say), again)
    assert (report.restore_id, restore.phase_of(recovery, again)) == (ticket.restore_id, Phase.CLOSED)


@pytest.mark.deep
@pytest.mark.fault("F3")
def test_one_whose_application_failed_after_it_had_worked_is_started_again(small: Small) -> None:
    recovery = small.recovery
    again = resumed(recovery, failed(small))
    assert restore.start(recovery, again).instances == ("one",)
    assert restore.phase_of(recovery, again) is Phase.STARTED
    restore.abandon(recovery, again)


@pytest.mark.deep
def test_but_not_without_the_offsets_that_it_goes_on_from(small: Small) -> None:
    recovery = small.recovery
    ticket = failed(small)
    recovery.groups.set_offsets(recovery.application_id, {small.input: None})
    again = resumed(recovery, ticket)
    with pytest.raises(Damaged, match="has failed since") as caught:
        restore.start(recovery, again)
    assert caught.value.facts == {"gone": [str(small.input)]}
    assert not [one for one in recovery.application.status() if one.state.value == "running"]
    restore.abandon(recovery, again)


@pytest.mark.fault("F107")
def test_one_whose_state_came_back_behind_its_wipe_is_not_started(small: Small, tmp_path: Path) -> None:
    recovery = small.recovery
    ticket, _ = begun(small)
    recovery.application.stop(timeout=1)
    again = resumed(recovery, ticket)
    (tmp_path / "state" / "0_0").mkdir(parents=True)
    mark = WipeMark(place=str(tmp_path / "state"), at=time.time_ns() + 1_000_000)
    left = recovery.artifacts.write(again.restore_id, WIPED, WipeReport(removed=(), remaining=(), marks=(mark,)))
    note(recovery, again, Phase.WIPED, result=left)
    with pytest.raises(StaleState, match="older than its wipe"):
        restore.start(recovery, again)
    assert not [one for one in recovery.application.status() if one.state.value == "running"]
    (tmp_path / "state" / "0_0").rmdir()
    (tmp_path / "state").rmdir()
    assert restore.start(recovery, again).instances == ("one",)
    restore.abandon(recovery, again)


@pytest.mark.deep
def test_one_that_does_not_catch_up_is_told_what_waits_again(small: Small) -> None:
    ticket, started = begun(small)
    quick = small.recovery.config.restore.model_copy(update={"catch_up_timeout_seconds": 1})
    recovery = replace(small.recovery, config=small.recovery.config.model_copy(update={"restore": quick}))
    with pytest.raises(ApplicationNotReady, match=r"its inputs are 1 offsets behind") as error:
        restore.await_recovered(recovery, ticket, started)
    left = restore.abandon(recovery, ticket)
    command = f"streams-recovery resume small {ticket.restore_id} --approve {ticket.plan_hash}"
    assert (error.value.commands, left.commands) == ((command,), (command,))


def test_on_another_cluster_than_it_was_begun_on_it_does_not_go_on(small: Small) -> None:
    recovery, (ticket, _) = small.recovery, begun(small)
    assert ticket.cluster_id == recovery.cluster.cluster_id()
    restore.abandon(recovery, ticket)
    recovery.repository.delete([recovery.layout.work(ticket.restore_id, TICKET)])
    recovery.artifacts.write_once(ticket.restore_id, TICKET, replace(ticket, cluster_id="another"))
    with pytest.raises(Refused, match="was begun on the cluster another") as refused:
        restore.resume(recovery, ticket.restore_id, run_id="again", approved_hash=ticket.plan_hash, take_over=False)
    assert refused.value.facts == {"cluster": "another", "here": ticket.cluster_id}
    assert recovery.lock.holder() is None


@pytest.mark.fault("F3")
def test_one_that_failed_right_behind_the_start_goes_on_with_what_the_application_has_done_since(small: Small, tmp_path: Path) -> None:
    recovery, ticket, blind, told = small.recovery, wiped(small), tmp_path / "one" / "blind", list[str]()
    blind.parent.mkdir(exist_ok=True)
    blind.touch()
    with pytest.raises(RecoveryError, match="it cannot be asked"):
        restore.start(recovery, ticket)
    blind.unlink()
    produce(recovery, small.changelog, 1)
    commit(recovery, {small.input: 5})
    again = resumed(recovery, ticket)
    report = runs.carry_out(Runner(recovery=recovery, submitter=Here(recovery), say=told.append), again)
    assert (report.verdict, restore.phase_of(recovery, again), end(small)) == (restore.Verdict.EQUAL, Phase.CLOSED, 5)
    assert "application stopped" not in told
    committed = recovery.groups.last_committed(recovery.application_id)
    assert committed[small.input].offset == 5, "its offsets are not set a second time"
