"""Replacing running state on a real broker: what must be said and saved before, and how it comes back. Copies run here as Spark tasks would run them."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import Damaged, NotExact, NotFound, PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, Consistency
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import restore
from streams_recovery.operations.restore import SafetyPolicy
from streams_recovery.operations.restore.open import entries
from streams_recovery.operations.unfinished import dismiss, unfinished_restore
from tests.support.applications.restore_steps import end, loaded, opened, reach, saved
from tests.support.applications.savepoint_steps import cut, publish
from tests.support.applications.small import Small, asked
from tests.support.applications.topic_records import produce


def test_living_state_is_refused_unless_its_replacement_was_confirmed(small: Small) -> None:
    publish(small)
    recovery = small.recovery
    with pytest.raises(TargetNotEmpty, match=rf"{small.changelog.topic} \(4 offsets\).*say so with `replace`"):
        restore.plan(recovery, asked(recovery))
    for given_up in ({"replace": True}, {"safety": SafetyPolicy.SKIP}, {"safety": SafetyPolicy.BEST_EFFORT}):
        with pytest.raises(Refused, match=f"needs the application id {recovery.application_id} typed"):
            restore.plan(recovery, asked(recovery, confirm=recovery.application_id.upper(), **given_up))
    planned = restore.plan(recovery, asked(recovery, replace=True))
    assert planned.observed.offsets_replaced == {small.changelog.topic: 4, small.tail.topic: 4}
    held = recovery.groups.last_committed(recovery.application_id)
    assert {item.tp for item in planned.offsets} == {small.input, small.tail}
    assert planned.observed.offsets_before == {tp: held[tp].offset for tp in (small.input, small.tail)}
    ids = {
        topic.name: found.topic_id
        for topic, found in zip(planned.create, recovery.cluster.describe_topics([t.name for t in planned.create]).values(), strict=True)
    }
    assert {topic.name: topic.replaces for topic in planned.create} == ids


@pytest.mark.way("undo")
def test_what_was_replaced_comes_back(small: Small) -> None:
    recovery, savepoint = small.recovery, publish(small)
    produce(recovery, small.changelog, 3)
    newer = f"{recovery.application_id}-newer-changelog"
    recovery.cluster.create_topic(newer, partitions=1, replication_factor=1, config={})
    with pytest.raises(TargetNotEmpty, match="does not know") as caught:
        restore.plan(recovery, asked(recovery, savepoint=savepoint, replace=True, delete=(newer[:-1],)))
    assert caught.value.facts == {"topics": [newer]}
    assert "`delete`" in caught.value.next_step
    ticket = opened(recovery, asked(recovery, savepoint=savepoint, replace=True, delete=(newer,)))
    with pytest.raises(Refused, match="this step belongs between saved"):
        restore.prepare(recovery, ticket)
    kept = saved(recovery, ticket)
    assert (kept.consistency, kept.records) == (Consistency.EXACT, 10)
    assert recovery.savepoints.latest() == recovery.savepoints.read(savepoint), "no default for anything"
    assert recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].config == {"cleanup.policy": "compact"}
    assert saved(recovery, ticket) == kept, "saving again keeps what was saved first"
    assert (loaded(recovery, ticket), end(small)) == (7, 4)
    assert newer not in recovery.cluster.topic_names()
    assert unfinished_restore(recovery) == ticket.restore_id
    restore.abandon(recovery, ticket)

    back = opened(recovery, asked(recovery, restore.Undo, restore_id=ticket.restore_id, replace=True))
    assert back.after_unfinished == ticket.restore_id
    without = saved(recovery, back)
    assert without.savepoint_id is None
    assert f"restore {ticket.restore_id} left only half of a state" in str(without.none_because)
    assert (loaded(recovery, back), end(small)) == (10, 7)
    assert newer in recovery.cluster.topic_names()
    assert recovery.safety.ids() == [kept.savepoint_id]
    restore.abandon(recovery, back)


@pytest.mark.fault("F114")
def test_the_last_restore_to_undo_is_the_last_one_that_replaced_anything(small: Small) -> None:
    recovery, savepoint = small.recovery, publish(small)
    produce(recovery, small.changelog, 3)
    first = opened(recovery, asked(recovery, savepoint=savepoint, replace=True))
    kept = saved(recovery, first)
    loaded(recovery, first)
    reach(recovery, first, Phase.CLOSED)
    recovery.lock.release(first.lock)
    failed = opened(recovery, asked(recovery, savepoint=savepoint, replace=True))
    of_failed = saved(recovery, failed)
    restore.abandon(recovery, failed)
    planned = restore.plan(recovery, asked(recovery, restore.Undo, replace=True))
    assert planned.savepoint_id == kept.savepoint_id != of_failed.savepoint_id
    assert not [warning for warning in planned.warnings if "no safety savepoint of its own" in warning]
    by_name = restore.plan(recovery, asked(recovery, restore.Undo, restore_id=failed.restore_id, replace=True))
    assert by_name.savepoint_id == of_failed.savepoint_id


@pytest.mark.fault("F63")
def test_an_entry_of_its_journal_that_cannot_be_read_closes_no_way_back(small: Small) -> None:
    recovery, savepoint = small.recovery, publish(small)
    ticket = opened(recovery, asked(recovery, savepoint=savepoint, replace=True))
    kept = saved(recovery, ticket)
    loaded(recovery, ticket)
    restore.abandon(recovery, ticket)
    recovery.repository.create(f"{recovery.layout.journal(ticket.restore_id)}{len(entries(recovery, ticket)) + 1:012}.json", b"half an en")
    dismiss(recovery, ticket.restore_id)
    planned = restore.plan(recovery, asked(recovery, restore.Undo, restore_id=ticket.restore_id, replace=True))
    assert planned.savepoint_id == kept.savepoint_id


@pytest.mark.deep
def test_a_restore_that_destroyed_nothing_hides_no_unfinished_one(small: Small) -> None:
    recovery, savepoint = small.recovery, publish(small)
    ticket = opened(recovery, asked(recovery, savepoint=savepoint, replace=True))
    saved(recovery, ticket)
    restore.prepare(recovery, ticket)
    restore.abandon(recovery, ticket)
    second = opened(recovery, asked(recovery, savepoint=savepoint, replace=True))
    restore.abandon(recovery, second)
    assert unfinished_restore(recovery) == ticket.restore_id
    with pytest.raises(Refused, match=f"restore {ticket.restore_id} .* failed"):
        cut(recovery)


@pytest.mark.deep
def test_a_topic_that_somebody_created_after_the_approval_is_not_deleted(small: Small) -> None:
    recovery, savepoint = small.recovery, publish(small)
    ticket = opened(recovery, asked(recovery, savepoint=savepoint, replace=True))
    saved(recovery, ticket)
    recovery.cluster.delete_topics([small.changelog.topic])
    created = recovery.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config={})
    produce(recovery, small.changelog, 2)
    with pytest.raises(PlanChanged, match="were created since") as caught:
        restore.prepare(recovery, ticket)
    assert caught.value.facts == {"topics": [small.changelog.topic]}
    assert recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].topic_id == created.topic_id
    assert restore.abandon(recovery, ticket).phase == "saved"


@pytest.mark.deep
def test_what_was_gone_already_is_said_and_comes_back_only_when_allowed(small: Small) -> None:
    recovery, savepoint = small.recovery, publish(small)
    recovery.cluster.delete_topics([small.changelog.topic])
    ticket = opened(recovery, asked(recovery, savepoint=savepoint, replace=True))
    kept = saved(recovery, ticket)
    assert (kept.consistency, kept.records) == (Consistency.DAMAGED, 3)
    loaded(recovery, ticket)
    restore.abandon(recovery, ticket)
    with pytest.raises(NotExact, match=f"topic {small.changelog.topic} was gone.*set `allow_damaged`"):
        restore.plan(recovery, asked(recovery, restore.Undo, replace=True))
    planned = restore.plan(recovery, asked(recovery, restore.Undo, replace=True, allow_damaged=True))
    assert [topic.name for topic in planned.create] == [small.tail.topic]
    assert [topic.name for topic in planned.delete] == [small.changelog.topic], "made by the restore that is undone, so not asked for"


@pytest.mark.deep
def test_with_nothing_left_there_is_nothing_to_save_and_nothing_to_undo(small: Small) -> None:
    recovery, savepoint = small.recovery, publish(small)
    recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    recovery.groups.delete(recovery.application_id)
    ticket = opened(recovery, asked(recovery, savepoint=savepoint))
    kept = saved(recovery, ticket)
    assert (kept.savepoint_id, kept.none_because) == (None, "nothing was there: neither internal topics nor committed offsets")
    assert loaded(recovery, ticket) == 7
    restore.abandon(recovery, ticket)
    for which in (ticket.restore_id, "latest"):
        with pytest.raises(NotFound) as caught:
            restore.plan(recovery, asked(recovery, restore.Undo, restore_id=which, replace=True))
        assert caught.value.facts == {"restore": which, "known": []}


@pytest.mark.deep
@pytest.mark.parametrize("policy", [SafetyPolicy.REQUIRED, SafetyPolicy.BEST_EFFORT])
def test_a_copy_that_failed_stops_the_restore_or_is_noted(small: Small, policy: SafetyPolicy) -> None:
    recovery, savepoint = small.recovery, publish(small)
    produce(recovery, small.changelog, 3)
    recovery.groups.set_offsets(recovery.application_id, {small.input: CommittedOffset(offset=5, metadata="", leader_epoch=None)})
    ticket = opened(recovery, asked(recovery, savepoint=savepoint, replace=True, safety=policy))
    begun = restore.save_state(recovery, ticket)
    assert begun.job.ranges == 1
    if policy is SafetyPolicy.REQUIRED:
        with pytest.raises((Damaged, NotFound)):
            restore.keep_state(recovery, ticket, begun)
        with pytest.raises(Refused, match="this step belongs between saved"):
            restore.prepare(recovery, ticket)
    else:
        assert "could not be taken" in str(restore.keep_state(recovery, ticket, begun).none_because)
        assert loaded(recovery, ticket) == 7
    restore.abandon(recovery, ticket)
    assert recovery.safety.ids() == []
