"""A restore that broke off late is resumed: behind its offsets, behind its wipe, and after the application has worked for a while."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.cli.restore_steps import carry_out
from streams_recovery.core.errors import ApplicationNotReady, Damaged
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import restore
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.restore import RestoreTicket
from tests.integration.pairs import programs
from tests.integration.restoring import loaded, opened, saved, verified
from tests.integration.small import Small, asked, commit, publish, small_application
from tests.integration.test_rebuild import cleared, rebuild


@pytest.fixture
def small(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """One that is at work once it was started, with a savepoint."""
    with small_application(bootstrap, tmp_path, programs=programs(tmp_path, "one")) as found:
        publish(found)
        yield found


def resumed(bench: Workbench, ticket: RestoreTicket) -> RestoreTicket:
    """What broke off, under a lock of its own again."""
    restore.abandon(bench, ticket)
    return restore.resume(bench, ticket.restore_id, run_id="again", approved_hash=ticket.plan_hash, take_over=False)


def begun(small: Small) -> tuple[RestoreTicket, restore.StartSummary]:
    """A restore whose application was started."""
    bench = small.bench
    bench.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    ticket = opened(bench, asked(bench))
    saved(bench, ticket)
    loaded(bench, ticket)
    verified(bench, ticket)
    restore.set_offsets(bench, ticket)
    restore.wipe(bench, ticket)
    return ticket, restore.start(bench, ticket)


def failed(small: Small) -> RestoreTicket:
    """A restore whose application was started, has processed all of its input, and then failed."""
    ticket, _ = begun(small)
    commit(small.bench, {small.input: 5})
    small.bench.application.stop(timeout=1)
    return ticket


@pytest.mark.fault("F3")
@pytest.mark.parametrize("phase", [Phase.OFFSETS_SET, Phase.WIPED])
def test_a_rebuild_that_broke_off_behind_its_offsets_is_resumed_to_its_end(small: Small, phase: Phase) -> None:
    bench = small.bench
    ticket = cleared(bench, rebuild(bench))
    restore.verify_cleared(bench, ticket, verified(bench, ticket))
    restore.set_offsets(bench, ticket)
    if phase is Phase.WIPED:
        restore.wipe(bench, ticket)
    assert restore.phase_of(bench, ticket) is phase
    again = resumed(bench, ticket)

    def say(text: str) -> None:
        if text.startswith("started"):
            commit(bench, {small.input: 5})

    report = carry_out(bench, again, lambda *_: None, say)
    assert (report.restore_id, restore.phase_of(bench, again)) == (ticket.restore_id, Phase.CLOSED)


@pytest.mark.fault("F3")
def test_one_whose_application_failed_after_it_had_worked_is_started_again(small: Small) -> None:
    bench = small.bench
    again = resumed(bench, failed(small))
    assert restore.start(bench, again).instances == ("one",)
    assert restore.phase_of(bench, again) is Phase.STARTED
    restore.abandon(bench, again)


def test_but_not_without_the_offsets_that_it_goes_on_from(small: Small) -> None:
    bench = small.bench
    ticket = failed(small)
    bench.groups.set_offsets(bench.application_id, {small.input: None})
    again = resumed(bench, ticket)
    with pytest.raises(Damaged, match=f"has failed since, and 1 of its committed offsets are gone: {small.input}"):
        restore.start(bench, again)
    assert not [one for one in bench.application.status() if one.state.value == "running"]
    restore.abandon(bench, again)


def test_one_that_does_not_catch_up_is_told_what_waits_again(small: Small) -> None:
    ticket, started = begun(small)
    quick = small.bench.config.restore.model_copy(update={"catch_up_timeout_seconds": 1})
    bench = replace(small.bench, config=small.bench.config.model_copy(update={"restore": quick}))
    with pytest.raises(ApplicationNotReady, match=r"its inputs are 1 offsets behind") as error:
        restore.await_recovered(bench, ticket, started)
    left = restore.abandon(bench, ticket)
    command = f"`streams-recovery resume small {ticket.restore_id} --approve {ticket.plan_hash}`"
    assert command in str(error.value.next_step)
    assert command in left.next_step
