"""Outputs that change hands between an application and its clone, on a real broker: who may write, what comes twice, and what a crash leaves."""

from __future__ import annotations

import json
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from streams_recovery.cli.app import app
from streams_recovery.core.errors import ApplicationNotReady, LockLost, Refused
from streams_recovery.core.kafka_types import QuiesceMode, TopicRole
from streams_recovery.core.repository.ownership import Role
from streams_recovery.operations import quiesce_record, restore, rollout
from streams_recovery.operations import savepoint as savepoints
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.rollout import CutoverStep
from streams_recovery.operations.rollout.cutover import append_role
from tests.support.applications import pair
from tests.support.applications.pair import Both, free, open_switch, request, roles, switched, two_applications
from tests.support.applications.savepoint_steps import begun, cut, publish, take
from tests.support.applications.small import asked, reopened
from tests.support.applications.topic_records import commit, produce

CUT_OVER, ROLL_BACK = CutoverStep
KILLED_EACH_TIME = (("retired", CUT_OVER), ("transferred", ROLL_BACK))


@pytest.fixture
def cloned(both: Both) -> Both:
    pair.cloned(both)
    return both


def patient(recovery: RecoveryContext, seconds: int) -> RecoveryContext:
    limit = recovery.config.restore.model_copy(update={"catch_up_timeout_seconds": seconds})
    return replace(recovery, config=recovery.config.model_copy(update={"restore": limit}))


def lagging(clone: RecoveryContext, most: int) -> RecoveryContext:
    """The clone, which may be so many records behind."""
    assert clone.config.clone is not None
    section = clone.config.clone.model_copy(update={"max_lag": most})
    return replace(clone, config=clone.config.model_copy(update={"clone": section}))


@pytest.mark.way("cut-over")
def test_outputs_go_to_the_clone_and_back_with_what_comes_twice_counted(cloned: Both) -> None:
    old, small, name = cloned.old, cloned.small, cloned.small.input
    real, own = small.output.topic, cloned.own
    assert (cloned.started_with("old"), cloned.started_with("next")) == ("", own)
    produce(old, small.input, 2)
    commit(old, {small.input: 7})
    with cloned.clone() as clone:
        plan = rollout.plan_cutover(old, clone, request(CUT_OVER))
        assert (plan.again, plan.lag, plan.outputs) == ({name: 2}, {name: 2}, {own: real})
        with pytest.raises(Refused, match="behind its input") as caught:
            rollout.plan_cutover(old, lagging(clone, 1), request(CUT_OVER))
        assert (caught.value.facts["lag"], caught.value.facts["max_lag"]) == ({name: 2}, 1)

    first = report = switched(cloned, request(CUT_OVER))
    assert (report.again, report.records_again, report.live) == ({name: 2}, 2, cloned.clone_id)
    assert report.tail == {cloned.tail: 3}, "what the clone had on its way goes to the real outputs as well"
    assert report.offsets == {old.application_id: {name: 7}, cloned.clone_id: {name: 5}}
    assert (cloned.started_with("old"), cloned.started_with("next")) == (None, real)
    assert (roles(cloned), free(cloned)) == ((Role.RETIRED, Role.LIVE), True)

    produce(old, small.input, 3)
    with cloned.clone() as clone:
        commit(clone, {small.input: 10})
    report = switched(cloned, request(ROLL_BACK))
    assert (report.again, report.live) == ({name: 3}, old.application_id)
    assert (cloned.started_with("old"), cloned.started_with("next")) == ("", None)
    assert (roles(cloned), free(cloned)) == ((Role.LIVE, Role.STANDBY), True)
    # The clone is as it was, so it may go on beside, and be cut over once more.
    with cloned.clone() as clone:
        clone.application.start()
        assert (cloned.started_with("next"), clone.config.topics.outputs) == (own, (own,))
        assert rollout.plan_cutover(old, clone, request(CUT_OVER)).again == {}
        with pytest.raises(Refused, match="another run has since"):
            open_switch(old, clone, request(CUT_OVER), run=first.run)
    assert free(cloned)


@pytest.mark.deep
def test_after_a_cut_over_nothing_starts_the_old_one_or_gives_the_clone_other_outputs(cloned: Both) -> None:
    old, small, real = cloned.old, cloned.small, cloned.small.output.topic
    switched(cloned, request(CUT_OVER))
    with pytest.raises(Refused, match="transferred its outputs"):
        old.application.start()
    with pytest.raises(Refused, match="transferred its outputs"):
        restore.plan(old, asked(old, replace=True))
    before = old.savepoints.ids()
    assert take(small).savepoint_id not in before, "a savepoint of what is down is taken as ever"
    assert cloned.started_with("old") is None
    with cloned.clone() as clone:
        assert (clone.config.topics.outputs, clone.config.restore.topic_map) == ((real,), {})
        assert [topic.name for topic in cut(clone).topics if topic.role is TopicRole.OUTPUT] == [real]
        assert cloned.started_with("next") is None
        savepoints.finish(clone, begun(clone))
        assert cloned.started_with("next") == real, "what a dead savepoint had stopped is started as what it is"
        with pytest.raises(Refused, match="would take back"):
            restore.plan(clone, asked(clone, source=old.application_id, replace=True))


@pytest.mark.deep
@pytest.mark.fault("F81")
def test_a_live_clone_beside_offsets_that_moved_is_not_stopped_at_all(cloned: Both) -> None:
    switched(cloned, request(CUT_OVER))
    commit(cloned.old, {cloned.small.input: 4})
    with cloned.clone() as clone:
        (told,) = [one for one in savepoints.before_savepoint(clone) if one.kind == "outputs"]
        assert "has committed other offsets since" in told.text
        ticket = begun(clone)
        with pytest.raises(Refused, match="has committed other offsets since"):
            savepoints.quiesce(clone, ticket)
        assert savepoints.resume(clone, ticket).instances == ("one",)
        assert cloned.started_with("next") == cloned.small.output.topic
        savepoints.finish(clone, ticket)
        # One that a dead run has stopped is left to a person, and not started with its own outputs.
        quiesce_record.begin(clone, "dead", QuiesceMode.STOP, ("one",))
        clone.application.stop(timeout=1)
        with pytest.raises(Refused, match="has committed other offsets since"):
            begun(clone)
        assert cloned.started_with("next") is None
    commit(cloned.old, {cloned.small.input: 5})
    with cloned.clone() as clone:
        savepoints.finish(clone, begun(clone))
    assert cloned.started_with("next") == cloned.small.output.topic


@pytest.mark.deep
def test_without_new_input_nothing_comes_twice(cloned: Both) -> None:
    with cloned.clone() as clone:
        commit(clone, {cloned.tail: 3})
    report = switched(cloned, request(CUT_OVER))
    assert (report.again, report.records_again, report.tail) == ({}, 0, {})
    back = switched(cloned, request(ROLL_BACK))
    assert (back.again, back.tail) == ({}, {})


@pytest.mark.deep
def test_the_old_application_is_waited_for_until_it_has_read_all_that_the_clone_had(cloned: Both) -> None:
    old, small = cloned.old, cloned.small
    commit(old, {small.input: 4, small.tail: 1})
    down: list[str | None] = []

    def later() -> None:
        while cloned.started_with("next") is not None:
            time.sleep(0.1)
        with reopened(small) as elsewhere:
            time.sleep(1)
            commit(elsewhere.recovery, {small.input: 5})
            time.sleep(1)
            down.append(cloned.started_with("old"))
            commit(elsewhere.recovery, {small.tail: 4})

    helper = threading.Thread(target=later)
    helper.start()
    report = switched(cloned, request(CUT_OVER))
    helper.join()
    assert down == [""], "it ran on until its repartition topic was read too"
    assert report.again == {}


@pytest.mark.deep
@pytest.mark.parametrize("behind", ["input", pytest.param("repartition topic", marks=pytest.mark.deep)])
def test_an_old_application_that_does_not_get_so_far_keeps_its_outputs(cloned: Both, behind: str) -> None:
    commit(cloned.old, {cloned.small.input: 4} if behind == "input" else {cloned.small.tail: 1})
    old = patient(cloned.old, 1)
    with cloned.clone() as clone:
        ticket = open_switch(old, clone, request(CUT_OVER))
        with pytest.raises(
            ApplicationNotReady, match="output would be missing" if behind == "input" else "records of repartition topics left"
        ):
            rollout.stop(old, clone, ticket)
        left = rollout.abandon(old, clone, ticket)
    assert left.started == (cloned.clone_id,), "the old one was never stopped"
    assert (cloned.started_with("old"), cloned.started_with("next")) == ("", cloned.own)
    assert roles(cloned) == (Role.LIVE, Role.STANDBY)
    assert free(cloned)


@pytest.mark.deep
def test_what_is_down_and_behind_is_refused_before_anything_is_stopped(cloned: Both) -> None:
    old, small = cloned.old, cloned.small
    old.application.stop(timeout=10)
    with cloned.clone() as clone:
        commit(old, {small.input: 4})
        with pytest.raises(Refused, match="has read input") as caught:
            rollout.plan_cutover(old, clone, request(CUT_OVER))
        assert caught.value.facts["missing"] == {small.input: 1}
        commit(old, {small.input: 5, small.tail: 1})
        with pytest.raises(Refused, match="unread records") as caught:
            rollout.plan_cutover(old, clone, request(CUT_OVER))
        assert caught.value.facts["unread"] == {small.tail: 3}
    assert cloned.started_with("next") == cloned.own


@pytest.mark.deep
def test_a_clone_whose_state_is_not_known_is_refused(both: Both) -> None:
    publish(both.small)
    with both.clone() as clone:
        commit(clone, {both.small.input: 5})
        with pytest.raises(Refused, match="was not restored from a savepoint"):
            rollout.plan_cutover(both.old, clone, request(CUT_OVER))
        with pytest.raises(Refused, match="not configured as a clone"):
            rollout.plan_cutover(clone, both.old, request(CUT_OVER))


@pytest.mark.deep
def test_a_clone_that_does_not_close_cleanly_is_not_cut_over_without_transactions(bootstrap: str, tmp_path: Path) -> None:
    with two_applications(bootstrap, tmp_path, guarantee="at_least_once") as both:
        savepoint = publish(both.small)
        both.old.application.start()
        both.cloned(savepoint)
        commit(both.old, {both.small.input: 5, both.small.tail: 4})
        (tmp_path / "next" / "unclean").touch()
        with both.clone() as clone:
            ticket = open_switch(both.old, clone, request(CUT_OVER))
            with pytest.raises(Refused, match="did not close cleanly"):
                rollout.stop(both.old, clone, ticket)
            assert rollout.abandon(both.old, clone, ticket).started == (), "a state that is not known is not started again"
        assert (both.started_with("old"), both.started_with("next")) == ("", None)
        assert roles(both) == (Role.LIVE, Role.STANDBY)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("reached", "way_out"),
    [
        pytest.param(reached, way_out, marks=[] if (reached, way_out) in KILLED_EACH_TIME else [pytest.mark.deep])
        for reached in ("stopped", "retired", "transferred")
        for way_out in (CUT_OVER, ROLL_BACK)
    ],
)
def test_a_cut_over_that_was_killed_is_finished_or_taken_back(cloned: Both, reached: str, way_out: CutoverStep) -> None:
    old, run = cloned.old, uuid.uuid4().hex
    with cloned.clone() as clone:
        ticket = open_switch(old, clone, request(CUT_OVER), run=run)
        rollout.stop(old, clone, ticket)
        # Stopped with more in it than what the clone's input had caused: that is not waited for, and comes twice instead.
        produce(old, cloned.small.tail, 2)
        if reached == "retired":
            append_role(old, clone, run, Role.RETIRED)
        if reached == "transferred":
            rollout.transfer_outputs(old, clone, ticket)
        for recovery in (old, clone):
            recovery.lock.take_from(f"cut-over {run}")
        for step in (rollout.stop, rollout.transfer_outputs, rollout.start_live):
            with pytest.raises(LockLost):
                step(old, clone, ticket)
    assert (cloned.started_with("old"), cloned.started_with("next")) == (None, None)
    report = switched(cloned, request(way_out))
    if way_out is CUT_OVER:
        assert (cloned.started_with("old"), cloned.started_with("next")) == (None, cloned.small.output.topic)
        assert roles(cloned) == (Role.RETIRED, Role.LIVE)
    else:
        assert (cloned.started_with("old"), cloned.started_with("next")) == ("", None)
        assert roles(cloned) == (Role.LIVE, Role.STANDBY)
    assert report.again == {}
    assert free(cloned)


@pytest.mark.deep
def test_an_old_application_that_could_not_be_started_again_is_started_by_the_retry(cloned: Both, tmp_path: Path) -> None:
    old, broken = cloned.old, tmp_path / "old" / "broken"
    broken.touch()
    with cloned.clone() as clone:
        ticket = open_switch(old, clone, request(CUT_OVER))
        rollout.stop(old, clone, ticket)
        with pytest.raises(ApplicationNotReady, match="it cannot be started"):
            rollout.abandon(old, clone, ticket)
        broken.unlink()
        assert rollout.abandon(old, clone, ticket).started == (old.application_id,)
    assert (cloned.started_with("old"), cloned.started_with("next")) == ("", cloned.own)
    assert (quiesce_record.left(old), free(cloned)) == (None, True)


@pytest.mark.deep
def test_what_a_cut_over_that_was_killed_has_stopped_is_brought_back_by_the_next_savepoint(cloned: Both) -> None:
    old = cloned.old
    with cloned.clone() as clone:
        ticket = open_switch(old, clone, request(CUT_OVER))
        rollout.stop(old, clone, ticket)
        for recovery in (old, clone):
            recovery.lock.take_from(f"cut-over {ticket.run}")
        savepoints.finish(old, begun(old))
    assert (cloned.started_with("old"), cloned.started_with("next")) == ("", None)


@pytest.mark.deep
def test_what_failed_between_the_two_entries_leaves_both_down(cloned: Both) -> None:
    old = cloned.old
    with cloned.clone() as clone:
        ticket = open_switch(old, clone, request(CUT_OVER))
        rollout.stop(old, clone, ticket)
        append_role(old, clone, ticket.run, Role.RETIRED)
        left = rollout.abandon(old, clone, ticket)
    assert (left.started, "stays down until then" in left.next_step) == ((), True)
    assert (cloned.started_with("old"), cloned.started_with("next")) == (None, None)
    assert free(cloned)


@pytest.mark.deep
def test_of_two_locks_a_dead_run_leaves_none_behind(cloned: Both) -> None:
    with cloned.clone() as clone:
        ticket = open_switch(cloned.old, clone, request(CUT_OVER))
        clone.lock.release(ticket.clone.lock)
        assert rollout.abandon(cloned.old, clone, ticket).started == ()
    assert (cloned.started_with("old"), cloned.started_with("next"), free(cloned)) == ("", cloned.own, True)


@pytest.mark.deep
def test_a_clone_that_read_on_beside_a_replaced_application_cannot_be_cut_over(cloned: Both) -> None:
    old, small = cloned.old, cloned.small
    with cloned.clone() as clone:
        old.application.stop(timeout=10)
        append_role(old, clone, "dead", Role.RETIRED)
        produce(old, small.input, 1)
        commit(clone, {small.input: 6})
        with pytest.raises(Refused, match="has read input") as caught:
            rollout.plan_cutover(old, clone, request(CUT_OVER))
        assert caught.value.facts["missing"] == {small.input: 1}
    assert switched(cloned, request(ROLL_BACK)).again == {small.input: 1}


@pytest.mark.deep
def test_a_way_back_to_an_application_whose_offsets_are_gone_leaves_it_down_to_be_restored(cloned: Both) -> None:
    old, small = cloned.old, cloned.small
    switched(cloned, request(CUT_OVER))
    old.groups.set_offsets(old.application_id, {small.input: None})
    with cloned.clone() as clone, pytest.raises(Refused, match="was retired") as caught:
        rollout.plan_cutover(old, clone, request(ROLL_BACK))
    name = small.input
    assert (caught.value.facts["committed"].get(name, 0), caught.value.facts["retired_offsets"]) == (0, {name: 5})
    assert cloned.started_with("next") == small.output.topic, "until then the clone writes on"
    report = switched(cloned, request(ROLL_BACK, restore_first=True))
    assert report.live == old.application_id
    assert (cloned.started_with("old"), cloned.started_with("next")) == (None, None)
    assert restore.plan(old, asked(old, replace=True)).create != ()


@pytest.mark.deep
def test_the_command_line_shows_the_plan_and_carries_out_what_was_approved(cloned: Both) -> None:
    def command(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(app, list(arguments), env=cloned.variables, input=typed)

    commit(cloned.old, {cloned.small.input: 5})
    plan = command("cut-over", "next", "--plan", "--json")
    assert json.loads(plan.stdout)["again"] == {}
    refused = command("cut-over", "next", "--reason", "test", "--approve", "another")
    assert "this plan was not approved" in str(refused.exception)
    refused = command("cut-over", "next", "--reason", "test", typed="no\n")
    assert "was not approved" in str(refused.exception)
    assert (cloned.started_with("old"), cloned.started_with("next")) == ("", cloned.own)

    done = command("cut-over", "next", "--reason", "test", "--json", "--approve", json.loads(plan.stdout)["hash"])
    assert json.loads(done.stdout)["live"] == cloned.clone_id, done.exception
    assert (cloned.started_with("old"), cloned.started_with("next")) == (None, cloned.small.output.topic)
    assert "Roll back from" in command("roll-back", "next", "--plan").stdout
    done = command("roll-back", "next", "--reason", "test", typed=f"{cloned.clone_id}\n")
    assert f"{cloned.old.application_id} writes the outputs" in done.stdout.replace("\n", " "), done.exception
    assert (cloned.started_with("old"), cloned.started_with("next")) == ("", None)
    assert "is not configured as a clone" in str(command("cut-over", "small", "--plan").exception)
