"""Replacing living state on a real broker: what must be said and saved before, and how it comes back. Copies run here as Spark tasks would run them."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import Damaged, NotExact, NotFound, PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, Consistency
from streams_recovery.operations import restore
from streams_recovery.operations.restore import SafetyPolicy
from streams_recovery.operations.unfinished import unfinished_restore
from tests.integration.restoring import end, loaded, opened, saved
from tests.integration.small import Small, asked, cut, produce, publish


def test_living_state_is_refused_unless_its_replacement_was_confirmed(small: Small) -> None:
    publish(small)
    bench = small.bench
    with pytest.raises(TargetNotEmpty, match=rf"{small.changelog.topic} \(4 offsets\).*say so with `replace`"):
        restore.plan(bench, asked(bench))
    for given_up in ({"replace": True}, {"safety": SafetyPolicy.SKIP}, {"safety": SafetyPolicy.BEST_EFFORT}):
        with pytest.raises(Refused, match=f"needs the application id {bench.application_id} typed"):
            restore.plan(bench, asked(bench, confirm=bench.application_id.upper(), **given_up))
    planned = restore.plan(bench, asked(bench, replace=True))
    assert planned.observed.offsets_replaced == {small.changelog.topic: 4, small.tail.topic: 4}
    ids = {
        topic.name: found.topic_id
        for topic, found in zip(planned.create, bench.cluster.describe_topics([t.name for t in planned.create]).values(), strict=True)
    }
    assert {topic.name: topic.replaces for topic in planned.create} == ids


def test_what_was_replaced_comes_back(small: Small) -> None:
    bench, savepoint = small.bench, publish(small)
    produce(bench, small.changelog, 3)
    newer = f"{bench.application_id}-newer-changelog"
    bench.cluster.create_topic(newer, partitions=1, replication_factor=1, config={})
    with pytest.raises(TargetNotEmpty, match=rf"does not know: {newer}\..*name each topic that may go"):
        restore.plan(bench, asked(bench, savepoint=savepoint, replace=True, delete=(newer[:-1],)))
    ticket = opened(bench, asked(bench, savepoint=savepoint, replace=True, delete=(newer,)))
    with pytest.raises(Refused, match="this step belongs between saved"):
        restore.prepare(bench, ticket)
    kept = saved(bench, ticket)
    assert (kept.consistency, kept.records) == (Consistency.EXACT, 10)
    assert bench.savepoints.latest() == bench.savepoints.read(savepoint), "no default for anything"
    assert bench.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].config == {"cleanup.policy": "compact"}
    assert saved(bench, ticket) == kept, "saving again keeps what was saved first"
    assert (loaded(bench, ticket), end(small)) == (7, 4)
    assert newer not in bench.cluster.topic_names()
    assert unfinished_restore(bench) == ticket.restore_id
    restore.abandon(bench, ticket)

    back = opened(bench, asked(bench, savepoint=f"before:{ticket.restore_id}", replace=True))
    assert back.after_unfinished == ticket.restore_id
    without = saved(bench, back)
    assert without.savepoint_id is None
    assert f"restore {ticket.restore_id} left only half of a state" in str(without.none_because)
    assert (loaded(bench, back), end(small)) == (10, 7)
    assert newer in bench.cluster.topic_names()
    assert bench.safety.ids() == [kept.savepoint_id]
    restore.abandon(bench, back)


def test_a_restore_that_destroyed_nothing_hides_no_unfinished_one(small: Small) -> None:
    bench, savepoint = small.bench, publish(small)
    ticket = opened(bench, asked(bench, savepoint=savepoint, replace=True))
    saved(bench, ticket)
    restore.prepare(bench, ticket)
    restore.abandon(bench, ticket)
    second = opened(bench, asked(bench, savepoint=savepoint, replace=True))
    restore.abandon(bench, second)
    assert unfinished_restore(bench) == ticket.restore_id
    with pytest.raises(Refused, match=f"restore {ticket.restore_id} .* broke off"):
        cut(bench)


def test_a_topic_that_somebody_created_after_the_approval_is_not_deleted(small: Small) -> None:
    bench, savepoint = small.bench, publish(small)
    ticket = opened(bench, asked(bench, savepoint=savepoint, replace=True))
    saved(bench, ticket)
    bench.cluster.delete_topics([small.changelog.topic])
    created = bench.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config={})
    produce(bench, small.changelog, 2)
    with pytest.raises(PlanChanged, match=f"created since the plan was approved: {small.changelog.topic}"):
        restore.prepare(bench, ticket)
    assert bench.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].topic_id == created.topic_id
    assert restore.abandon(bench, ticket).phase == "saved"


def test_what_was_gone_already_is_said_and_comes_back_only_when_allowed(small: Small) -> None:
    bench, savepoint = small.bench, publish(small)
    bench.cluster.delete_topics([small.changelog.topic])
    ticket = opened(bench, asked(bench, savepoint=savepoint, replace=True))
    kept = saved(bench, ticket)
    assert (kept.consistency, kept.records) == (Consistency.DAMAGED, 3)
    loaded(bench, ticket)
    restore.abandon(bench, ticket)
    with pytest.raises(NotExact, match=f"topic {small.changelog.topic} was gone.*set allow_damaged"):
        restore.plan(bench, asked(bench, savepoint="before:latest", replace=True))
    planned = restore.plan(bench, asked(bench, savepoint="before:latest", replace=True, allow_damaged=True))
    assert [topic.name for topic in planned.create] == [small.tail.topic]
    assert [topic.name for topic in planned.delete] == [small.changelog.topic], "made by the restore that is undone, so not asked for"


def test_with_nothing_left_there_is_nothing_to_save_and_nothing_to_undo(small: Small) -> None:
    bench, savepoint = small.bench, publish(small)
    bench.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    bench.groups.delete(bench.application_id)
    ticket = opened(bench, asked(bench, savepoint=savepoint))
    kept = saved(bench, ticket)
    assert (kept.savepoint_id, kept.none_because) == (None, "nothing was there: neither internal topics nor committed offsets")
    assert loaded(bench, ticket) == 7
    restore.abandon(bench, ticket)
    for which in (ticket.restore_id, "latest"):
        with pytest.raises(NotFound, match=f"no safety savepoint was taken before restore {which}.*restores that have one: none"):
            restore.plan(bench, asked(bench, savepoint=f"before:{which}", replace=True))


@pytest.mark.parametrize("policy", [SafetyPolicy.REQUIRED, SafetyPolicy.BEST_EFFORT])
def test_a_copy_that_failed_stops_the_restore_or_is_noted(small: Small, policy: SafetyPolicy) -> None:
    bench, savepoint = small.bench, publish(small)
    produce(bench, small.changelog, 3)
    bench.groups.set_offsets(bench.application_id, {small.input: CommittedOffset(offset=5, metadata="", leader_epoch=None)})
    ticket = opened(bench, asked(bench, savepoint=savepoint, replace=True, safety=policy))
    begun = restore.save_state(bench, ticket)
    assert begun.job.ranges == 1
    if policy is SafetyPolicy.REQUIRED:
        with pytest.raises((Damaged, NotFound)):
            restore.keep_state(bench, ticket, begun)
        with pytest.raises(Refused, match="this step belongs between saved"):
            restore.prepare(bench, ticket)
    else:
        assert "could not be taken" in str(restore.keep_state(bench, ticket, begun).none_because)
        assert loaded(bench, ticket) == 7
    restore.abandon(bench, ticket)
    assert bench.safety.ids() == []
