"""An upgrade in one go: the old application stops for an exact savepoint, and the clone goes on exactly there; on a real broker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ApplicationNotReady, Damaged, NotExact, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, QuiesceMode, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.waiting import poll
from streams_recovery.operations import quiesce_record, rollout
from streams_recovery.operations import savepoint as savepoints
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import note
from streams_recovery.operations.restore.strategies import RestoreRequest
from streams_recovery.operations.rollout import CutoverStep
from streams_recovery.operations.rollout.cutover import append_role
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.pair import Both, Here, free, request, roles, switched
from tests.support.applications.restore_steps import opened
from tests.support.applications.savepoint_steps import copy, publish, take
from tests.support.applications.small import asked
from tests.support.applications.topic_records import commit, produce


def wanted() -> SavepointRequest:
    return SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="upgrade", mode=QuiesceMode.STOP)


def runners(old: RecoveryContext, clone: RecoveryContext, say: Callable[[str], None]) -> tuple[Runner, Runner]:
    """Those of the old application and of its clone."""

    def of(recovery: RecoveryContext) -> Runner:
        return Runner(recovery=recovery, submitter=Here(recovery), say=say, pair=(old, clone), sleep=lambda _: None)

    return of(old), of(clone)


def captured(old: RecoveryContext) -> tuple[savepoints.Ticket, savepoints.CutSummary]:
    """The cut of an upgrade's savepoint."""
    ticket = savepoints.begin(old, wanted())
    return ticket, savepoints.capture(old, ticket, savepoints.quiesce(old, ticket))


def upgraded(both: Both) -> tuple[savepoints.Ticket, savepoints.CutSummary]:
    """An upgrade whose cut is taken and whose old application is on record as replaced."""
    ticket, cut = captured(both.old)
    with both.clone() as clone:
        rollout.retire(both.old, clone, ticket, cut)
        rollout.retire(both.old, clone, ticket, cut)
    return ticket, cut


@pytest.mark.way("upgrade", "retirement")
def test_an_upgrade_goes_on_exactly_where_the_old_application_stopped(both: Both) -> None:
    old, real = both.old, both.small.output.topic
    old.application.start()
    with both.clone() as clone:
        plan = rollout.plan_upgrade(old, clone)
        assert (plan.running, plan.outputs) == (("one (pid 1)",), {both.own: real})
    ticket, cut = upgraded(both)
    assert both.started_with("old") is None
    taken = savepoints.publish(old, ticket, savepoints.gather(old, ticket, *copy(old, ticket, cut)).copied).savepoint_id
    savepoints.finish(old, ticket)
    take(both.small)
    assert both.started_with("old") is None, "the next hourly savepoint does not bring it back"

    with both.clone() as clone:
        restore = opened(clone, asked(clone, source=old.application_id, savepoint=taken))
        with pytest.raises(Refused, match="is in phase stopped"):
            rollout.make_live(old, clone, restore)
        proven = both.restored(clone, restore, before_start=True)
        rollout.require_retired(old, clone, taken)
        set_to, wrong = CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None), {both.small.input: 3}
        commit(clone, wrong)
        with pytest.raises(Damaged, match="would not begin where"):
            rollout.make_live(old, clone, restore)
        clone.groups.set_offsets(both.clone_id, {both.small.input: set_to})
        assert rollout.make_live(old, clone, restore).live == both.clone_id
        rollout.make_live(old, clone, restore)
    with both.clone() as clone:
        both.begun(clone, restore, proven)
        assert rollout.bring_back(old, clone, ticket).live == both.clone_id
        # Somebody clears what opened the restore: nobody approves it again, and it would replace what the clone has processed since.
        with pytest.raises(Refused, match=f"{both.clone_id} is live, and {old.application_id} is retired"):
            rollout.require_retired(old, clone, taken)
    assert (both.started_with("old"), both.started_with("next")) == (None, real)
    assert roles(both) == (Role.RETIRED, Role.LIVE)
    assert switched(both, request(CutoverStep.ROLL_BACK)).again == {both.small.input: 1}
    assert (both.started_with("old"), both.started_with("next")) == ("", None)


@pytest.mark.deep
def test_an_upgrade_that_fails_before_the_clone_is_live_brings_the_old_application_back(both: Both) -> None:
    old = both.old
    old.application.start()
    ticket, _ = upgraded(both)
    with pytest.raises(Refused, match="transferred its outputs"):
        old.application.start()
    savepoints.finish(old, ticket)
    with both.clone() as clone:
        back = rollout.bring_back(old, clone, ticket)
        assert (back.live, back.started) == (old.application_id, ("one",))
        assert rollout.bring_back(old, clone, ticket) == back, "harmless when it is repeated"
        with pytest.raises(Refused, match="is over"):
            rollout.require_retired(old, clone, ticket.savepoint_id)
    assert (both.started_with("old"), both.started_with("next")) == ("", None)
    assert roles(both) == (Role.LIVE, Role.STANDBY)
    assert free(both)
    # The entry that the upgrade did not come to, by somebody else.
    last = old.ownership.last()
    assert last is not None
    with both.clone() as clone:
        append_role(clone, old, last.run, Role.LIVE)
    with both.clone() as clone:
        assert clone.config.topics.outputs == (both.own,)


@pytest.mark.deep
def test_the_end_of_an_upgrade_that_is_repeated_leaves_down_what_somebody_has_stopped_since(both: Both) -> None:
    old, down = both.old, both.directory / "old" / "started"
    old.application.start()
    ticket, _ = upgraded(both)
    savepoints.finish(old, ticket)
    with both.clone() as clone:
        rollout.bring_back(old, clone, ticket)
        # Somebody stops it, for work on its topics.
        down.unlink()
        assert rollout.bring_back(old, clone, ticket).started == ()
    assert both.started_with("old") is None


@pytest.mark.deep
@pytest.mark.fault("F3")
def test_the_end_of_an_upgrade_that_is_repeated_starts_nothing_on_half_a_state(both: Both) -> None:
    old, broken = both.old, both.directory / "old" / "broken"
    old.application.start()
    taken = publish(both.small)
    ticket, _ = upgraded(both)
    savepoints.finish(old, ticket)
    broken.touch()
    with both.clone() as clone:
        with pytest.raises(ApplicationNotReady, match="it cannot be started"):
            rollout.bring_back(old, clone, ticket)
        broken.unlink()
        restore = opened(old, asked(old, savepoint=taken, replace=True, confirm=old.application_id))
        note(old, restore, Phase.DESTROYING)
        old.lock.release(restore.lock)
        with pytest.raises(Refused, match="failed after it had begun to replace topics"):
            rollout.bring_back(old, clone, ticket)
    assert (both.started_with("old"), old.lock.holder()) == (None, None)


@pytest.mark.deep
@pytest.mark.fault("F3")
def test_an_old_application_that_does_not_come_back_is_on_record_for_the_next_savepoint(both: Both) -> None:
    old, broken = both.old, both.directory / "old" / "broken"
    old.application.start()
    ticket, _ = upgraded(both)
    savepoints.finish(old, ticket)
    broken.touch()
    with both.clone() as clone, pytest.raises(ApplicationNotReady, match="it cannot be started"):
        rollout.bring_back(old, clone, ticket)
    broken.unlink()
    assert (roles(both), free(both), both.started_with("old")) == ((Role.LIVE, Role.STANDBY), True, None)
    assert quiesce_record.resume_abandoned(old) == ("one",)
    assert both.started_with("old") == ""


@pytest.mark.deep
def test_from_the_command_line_it_is_tried_again_and_does_not_hide_what_failed(both: Both) -> None:
    old, broken, told = both.old, both.directory / "old" / "broken", list[str]()
    old.application.start()

    def say(text: str) -> None:
        told.append(text)
        if text.startswith("bring_back, attempt"):
            broken.unlink()

    def refuses(_: str) -> RestoreRequest:
        broken.touch()
        raise Refused("somebody thought better of it", next_step="none")

    with both.clone() as clone:
        by_hand = runners(old, clone, say)
        with pytest.raises(Refused, match="somebody thought better of it"):
            runs.upgrade(*by_hand, wanted(), refuses)
    assert "it cannot be started" in told[-2]
    assert told[-1] == f"{old.application_id} writes the outputs"
    assert (both.started_with("old"), roles(both), free(both)) == ("", (Role.LIVE, Role.STANDBY), True)


def test_an_old_application_that_is_not_exact_is_not_retired(both: Both) -> None:
    old = both.old
    old.application.start()
    ticket, cut = captured(old)
    ahead = replace(cut, consistency=Consistency.AHEAD)
    with both.clone() as clone:
        with pytest.raises(NotExact, match="could count some input twice"):
            rollout.retire(old, clone, ticket, ahead)
        savepoints.finish(old, ticket)
        assert rollout.bring_back(old, clone, ticket).started == ("one",)
    assert (both.started_with("old"), roles(both)) == ("", (Role.LIVE, Role.STANDBY))


@pytest.mark.deep
def test_an_upgrade_from_the_command_line_goes_on_exactly_where_the_old_application_stopped(both: Both) -> None:
    old, small = both.old, both.small
    old.application.start()

    def reads() -> None:
        assert poll(lambda: both.started_with("next"), seconds=120) is not None
        with both.clone() as clone:
            commit(clone, {small.input: 5})

    with both.clone() as clone:
        by_hand = runners(old, clone, print)
        helper = threading.Thread(target=reads)
        helper.start()
        report = runs.upgrade(
            *by_hand, wanted(), lambda savepoint: asked(clone, source=old.application_id, savepoint=savepoint, confirm="")
        )
        helper.join()
    assert (report.application_id, report.savepoint_id) == (both.clone_id, old.savepoints.ids()[-1])
    assert (both.started_with("old"), both.started_with("next")) == (None, small.output.topic)
    assert (roles(both), free(both)) == ((Role.RETIRED, Role.LIVE), True)


@pytest.mark.deep
def test_an_upgrade_from_the_command_line_that_cannot_restore_brings_the_old_application_back(both: Both) -> None:
    old, living = both.old, f"{both.clone_id}-totals-changelog"
    old.application.start()
    old.cluster.create_topic(living, partitions=1, replication_factor=1, config={})
    produce(old, TopicPartition(living, 0), 1)
    with both.clone() as clone:
        by_hand = runners(old, clone, print)
        with pytest.raises(TargetNotEmpty):
            runs.upgrade(*by_hand, wanted(), lambda savepoint: asked(clone, source=old.application_id, savepoint=savepoint))
    assert (both.started_with("old"), both.started_with("next")) == ("", None)
    assert (roles(both), free(both)) == ((Role.LIVE, Role.STANDBY), True)
