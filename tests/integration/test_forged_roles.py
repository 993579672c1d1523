"""Entries on who writes the outputs that somebody has forged, on a real broker: they give no outputs to two, and keep no application down."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.operations import rollout
from streams_recovery.operations import savepoint as savepoints
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.rollout import CutoverStep
from tests.support.applications import pair
from tests.support.applications.pair import Both, free, request, roles, switched
from tests.support.applications.savepoint_steps import begun
from tests.support.applications.topic_records import commit

CUT_OVER, ROLL_BACK = CutoverStep


@pytest.fixture
def cloned(both: Both) -> Both:
    pair.cloned(both)
    return both


def forge(recovery: RecoveryContext, role: Role, other: str, offsets: dict[TopicPartition, int] | None = None) -> None:
    """An entry as somebody writes it who may create objects."""
    recovery.ownership.append(OwnershipEntry(role=role, other=other, run="them", at=1, offsets=offsets or {}, again={}, tail={}))


@pytest.mark.deep
@pytest.mark.fault("F63")
def test_a_forged_entry_gives_a_clone_no_outputs_of_an_application_that_writes_them(cloned: Both) -> None:
    old, name = cloned.old, cloned.small.input
    with cloned.clone() as clone:
        clone.application.stop(timeout=1)
        forge(clone, Role.LIVE, old.application_id)
        with pytest.raises(Refused, match="does not say that it transferred its outputs") as caught:
            clone.application.start()
        assert f"{old.application_id} is in use: one" in str(caught.value)
        # Both logs, and the offsets as they are.
        forge(old, Role.RETIRED, clone.application_id, {name: 5})
        with pytest.raises(Refused, match="is in use: one"):
            clone.application.start()
        # While it is down for a moment, and has read on since.
        old.application.stop(timeout=1)
        commit(old, {cloned.small.input: 4})
        with pytest.raises(Refused, match="has committed other offsets since"):
            clone.application.start()
        assert cloned.started_with("next") is None


@pytest.mark.deep
@pytest.mark.fault("F63")
@pytest.mark.parametrize("other", ["the clone", "nobody"])
def test_a_forged_entry_keeps_no_application_down_after_its_savepoint(cloned: Both, other: str) -> None:
    old, name = cloned.old, cloned.small.input
    forge(old, Role.RETIRED, cloned.clone_id if other == "the clone" else "nobody", {name: 5})
    ticket = begun(old)
    savepoints.capture(old, ticket, savepoints.quiesce(old, ticket))
    assert cloned.started_with("old") is None
    assert savepoints.resume(old, ticket).instances == ("one",)
    assert cloned.started_with("old") == "", "this run has stopped it, so this run starts it"
    savepoints.finish(old, ticket)
    old.application.stop(timeout=1)
    if other == "nobody":
        old.application.start()
        assert cloned.started_with("old") == ""


@pytest.mark.deep
@pytest.mark.fault("F63")
def test_after_a_cut_over_a_forged_entry_starts_neither_of_the_two_as_what_it_is_not(cloned: Both) -> None:
    switched(cloned, request(CUT_OVER))
    with cloned.clone() as clone:
        forge(cloned.old, Role.LIVE, clone.application_id)
        with pytest.raises(Refused, match="both might write the same outputs"):
            cloned.old.application.start()
        assert cloned.started_with("old") is None


@pytest.mark.fault("F80")
def test_of_two_one_is_started_while_a_savepoint_has_the_other_down_whatever_somebody_writes(cloned: Both) -> None:
    old, name = cloned.old, cloned.small.input
    with cloned.clone() as clone:
        clone.application.stop(timeout=1)
        ticket = begun(old)
        savepoints.capture(old, ticket, savepoints.quiesce(old, ticket))
        forge(old, Role.RETIRED, clone.application_id, {name: 5})
        forge(clone, Role.LIVE, old.application_id)
        with pytest.raises(Refused, match="has stopped it and starts it again"):
            clone.application.start()
        assert (cloned.started_with("old"), cloned.started_with("next")) == (None, None)
    # Somebody starts it by hand, with the real output.
    (cloned.directory / "next" / "started").write_text(cloned.small.output.topic)
    with pytest.raises(Refused, match="writes the same outputs and is in use"):
        savepoints.resume(old, ticket)
    assert cloned.started_with("old") is None
    (cloned.directory / "next" / "started").unlink()
    assert savepoints.resume(old, ticket).instances == ("one",)
    savepoints.finish(old, ticket)
    # What could not be started again is not stopped.
    (cloned.directory / "next" / "started").touch()
    again = begun(old)
    with pytest.raises(Refused, match="writes the same outputs and is in use"):
        savepoints.quiesce(old, again)
    assert cloned.started_with("old") == ""


@pytest.mark.deep
@pytest.mark.fault("F80")
@pytest.mark.parametrize("role", [Role.STANDBY, Role.LIVE])
def test_after_a_cut_over_an_entry_towards_nobody_does_not_start_the_old_one(cloned: Both, role: Role) -> None:
    switched(cloned, request(CUT_OVER))
    forge(cloned.old, role, "nobody")
    with pytest.raises(Refused, match="writes the same outputs and is in use"):
        cloned.old.application.start()
    assert cloned.started_with("old") is None


@pytest.mark.deep
@pytest.mark.fault("F63")
@pytest.mark.parametrize("cut_over", [False, True], ids=["beside", "cut over"])
def test_an_entry_towards_nobody_blocks_no_way_back_and_is_ended_by_it(cloned: Both, *, cut_over: bool) -> None:
    if cut_over:
        switched(cloned, request(CUT_OVER))
    forge(cloned.old, Role.RETIRED, "nobody", {cloned.small.input: 1})
    with cloned.clone() as clone:
        forge(clone, Role.STANDBY, "nobody")
        with pytest.raises(Refused, match="names nobody, and no application of that id is configured"):
            rollout.plan_cutover(cloned.old, clone, request(CUT_OVER))
    report = switched(cloned, request(ROLL_BACK))
    assert (report.live, cloned.started_with("old")) == (cloned.old.application_id, "")
    assert (roles(cloned), free(cloned)) == ((Role.LIVE, Role.STANDBY), True)
    with cloned.clone() as clone:
        clone.application.start()
    assert switched(cloned, request(CUT_OVER)).live == cloned.clone_id


@pytest.mark.deep
@pytest.mark.fault("F81")
@pytest.mark.parametrize("lives", [False, True], ids=["standby", "live"])
def test_a_savepoint_of_a_clone_starts_again_exactly_what_ran(cloned: Both, *, lives: bool) -> None:
    if lives:
        switched(cloned, request(CUT_OVER))
    ran, old = cloned.small.output.topic if lives else cloned.own, cloned.old.application_id
    for role, others in ((Role.LIVE, (old, "nobody")), (Role.RETIRED, ("nobody", old)), (Role.STANDBY, (old, "nobody"))):
        before, meanwhile = others
        with cloned.clone() as clone:
            forge(clone, role, before)
        with cloned.clone() as clone:
            assert clone.config.topics.outputs == (ran,)
            ticket = begun(clone)
            savepoints.capture(clone, ticket, savepoints.quiesce(clone, ticket))
            assert cloned.started_with("next") is None
            forge(clone, role, meanwhile)
        with cloned.clone() as clone:
            assert savepoints.resume(clone, ticket).instances == ("one",)
            assert cloned.started_with("next") == ran
            savepoints.finish(clone, ticket)


@pytest.mark.fault("F81")
def test_a_live_clone_is_stopped_only_where_it_can_be_started_as_what_it_is(cloned: Both) -> None:
    old, real = cloned.old, cloned.small.output.topic
    switched(cloned, request(CUT_OVER))
    with cloned.clone() as clone:
        ticket = begun(clone)
        savepoints.capture(clone, ticket, savepoints.quiesce(clone, ticket))
        # While it is held somebody commits for the old one, and adds the same run to both logs.
        commit(old, {cloned.small.input: 4})
        forge(old, Role.LIVE, clone.application_id)
        forge(clone, Role.STANDBY, old.application_id)
        savepoints.resume(clone, ticket)
        assert cloned.started_with("next") == real
        savepoints.finish(clone, ticket)
