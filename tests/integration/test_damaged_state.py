"""Savepoints of an application whose state was lost or replaced while no restore was at work, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from streams_recovery.core.errors import NotExact, Refused, StateDamaged
from streams_recovery.core.kafka_types import Claim, ClaimedTopic, CommittedOffset, Consistency
from streams_recovery.core.offsets.strategies import Earliest
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.savepoint.damage import ChangedState, DamageKind
from streams_recovery.core.words import new_id
from streams_recovery.operations import maintenance, restore, savepoint
from streams_recovery.operations.discovery import discover
from streams_recovery.operations.restore.open import note
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import begun, copy, publish, published, take
from tests.support.applications.small import STREAMS_METADATA, Small, asked, configured, rows_of
from tests.support.applications.topic_records import commit, delete_below, produce, recreate
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka


def started_again(small: Small) -> None:
    """What Kafka Streams does when a changelog is gone: it makes an empty one and goes on from its committed offset."""
    recreate(small.recovery, small.changelog.topic)
    produce(small.recovery, small.changelog, 1)
    commit(small.recovery, {small.input: 5})


@pytest.mark.deep
@pytest.mark.fault("F36")
def test_a_declared_store_without_a_changelog_gives_no_savepoint(small: Small) -> None:
    late = f"{small.recovery.application_id}-late-changelog"
    recovery = replace(small.recovery, config=configured(small.recovery, stores={"totals": {}, "late": {}}))
    with pytest.raises(StateDamaged) as caught:
        take(small, recovery=recovery)
    assert [(one.kind, one.topic) for one in caught.value.facts["damage"]] == [(DamageKind.MISSING, late)]
    assert "correct `stores`" in caught.value.next_step
    assert (recovery.savepoints.ids(), recovery.lock.holder()) == ([], None)
    with pytest.raises(StateDamaged):
        take(small, recovery=recovery, changed_state=ChangedState.INTENDED)
    left = recovery.savepoints.read(take(small, recovery=recovery, changed_state=ChangedState.DAMAGED).savepoint_id)
    [reason] = left.proof.reasons
    assert (left.consistency, late in reason) == (Consistency.DAMAGED, True)
    unlogged = {"totals": {}, "late": {"logged": False}, "latest": {"source": small.input.topic}}
    whole = replace(small.recovery, config=configured(small.recovery, stores=unlogged))
    assert take(small, recovery=whole).consistency is Consistency.EXACT


@pytest.mark.deep
@pytest.mark.fault("F36")
def test_state_that_was_made_anew_is_refused_or_damaged_until_it_is_brought_back(small: Small) -> None:
    recovery, good = small.recovery, publish(small)
    started_again(small)
    with pytest.raises(StateDamaged) as caught:
        take(small)
    assert [(one.kind, one.since) for one in caught.value.facts["damage"]] == [(DamageKind.RECREATED, good)]
    assert caught.value.facts["topics"] == [small.changelog.topic]
    assert (recovery.savepoints.ids(), recovery.lock.holder()) == ([good], None)
    found = recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic]
    assert "min.compaction.lag.ms" not in found.config

    summary = take(small, changed_state=ChangedState.DAMAGED)
    assert summary.consistency is Consistency.DAMAGED
    assert any("its state is damaged" in told for told in summary.warnings)
    newest = recovery.savepoints.latest()
    assert newest is not None
    assert newest.savepoint_id == good, "what is damaged is no default of anything"
    kept = {decision.savepoint_id: decision.why_kept for decision in maintenance.plan_expiry(recovery).keep}
    assert "last" in kept[good]
    assert kept[summary.savepoint_id] == ("not exact, but recent",)
    with pytest.raises(NotExact, match=f"savepoint {summary.savepoint_id} is `damaged`.*was created again"):
        restore.plan(recovery, asked(recovery, savepoint=summary.savepoint_id, replace=True))
    assert restore.plan(recovery, asked(recovery, savepoint=summary.savepoint_id, replace=True, allow_damaged=True)).rows == 1 + 3
    with pytest.raises(StateDamaged):
        take(small)

    ticket = opened(recovery, asked(recovery, replace=True))
    assert saved(recovery, ticket).consistency is Consistency.DAMAGED, "what a restore saves first says so too"
    assert loaded(recovery, ticket) == 7
    note(recovery, ticket, Phase.VERIFIED)
    restore.set_offsets(recovery, ticket)
    for phase in (Phase.RECOVERED, Phase.CLOSED):
        note(recovery, ticket, phase)
    recovery.lock.release(ticket.lock)
    assert published(small).consistency is Consistency.EXACT
    started_again(small)
    with pytest.raises(StateDamaged, match="was created again"):
        take(small)


def test_state_that_is_replaced_while_a_savepoint_begins_is_seen_before_anything_is_copied(small: Small) -> None:
    recovery, good = small.recovery, publish(small)
    ticket = begun(recovery)
    started_again(small)
    taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
    with pytest.raises(StateDamaged, match="was created again"):
        copy(recovery, ticket, taken)
    savepoint.finish(recovery, ticket)
    assert recovery.savepoints.ids() == [good]


@pytest.mark.deep
@pytest.mark.fault("F36")
@pytest.mark.parametrize("begins", [False, True], ids=["before", "while it begins"])
def test_a_savepoint_of_another_cluster_in_between_hides_no_loss(small: Small, begins: bool) -> None:
    recovery, first = small.recovery, small.recovery.savepoints.read(publish(small))
    elsewhere = replace(first, cluster_id="another cluster", savepoint_id=new_id(recovery.clock(), "elsewhere", after=[first.savepoint_id]))
    recovery.savepoints.publish(elsewhere)
    if begins:
        ticket = begun(recovery)
        started_again(small)
        taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
        with pytest.raises(StateDamaged) as caught:
            copy(recovery, ticket, taken)
        savepoint.finish(recovery, ticket)
    else:
        started_again(small)
        with pytest.raises(StateDamaged) as caught:
            take(small)
    assert [(one.kind, one.since) for one in caught.value.facts["damage"]] == [(DamageKind.RECREATED, first.savepoint_id)]
    assert recovery.savepoints.ids() == [first.savepoint_id, elsewhere.savepoint_id]


@pytest.mark.deep
@pytest.mark.fault("F36")
def test_a_changelog_that_vanished_or_lost_its_beginning_is_damage_and_may_be_intended(small: Small) -> None:
    recovery = small.recovery
    other = f"{recovery.application_id}-other-changelog"
    recovery.cluster.create_topic(other, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    first = publish(small)
    recovery.cluster.delete_topics([other])
    with pytest.raises(StateDamaged) as caught:
        take(small)
    assert [(one.kind, one.topic, one.since) for one in caught.value.facts["damage"]] == [(DamageKind.VANISHED, other, first)]
    second = published(small, changed_state=ChangedState.INTENDED)
    assert second.consistency is Consistency.EXACT
    assert f"topic {other}" in second.provenance.intended[0]
    assert take(small).consistency is Consistency.EXACT, "said once"

    alter(recovery.cluster, {small.changelog.topic: {"cleanup.policy": "delete"}})
    delete_below(recovery, small.changelog, 2)
    alter(recovery.cluster, {small.changelog.topic: {"cleanup.policy": "compact"}})
    with pytest.raises(StateDamaged, match="begins at 2") as caught:
        take(small)
    [damage] = caught.value.facts["damage"]
    assert (damage.kind, damage.topic, damage.partitions) == (DamageKind.TRUNCATED, small.changelog.topic, (0,))
    third = published(small, changed_state=ChangedState.INTENDED)
    assert min(row["offset"] for row in rows_of(recovery, third, small.changelog)) >= 2, "nothing that is gone is in it"


def test_what_is_accepted_has_to_be_typed(small: Small) -> None:
    for wanted in (ChangedState.DAMAGED, ChangedState.INTENDED):
        request = SavepointRequest(run_id="r", requested_by="test", reason="", mode=None, changed_state=wanted, confirm="yes")
        with pytest.raises(Refused) as caught:
            savepoint.begin(small.recovery, request)
        assert caught.value.facts == {"application_id": small.recovery.application_id, "confirm": "yes"}
    assert small.recovery.lock.holder() is None


@contextmanager
def namesake(small: Small, store: str, metadata: str = STREAMS_METADATA) -> Iterator[str]:
    """A consumer group, called like the application and the beginning of one of its stores; of Kafka Streams by its metadata."""
    name = f"{small.recovery.application_id}-{store}"
    small.recovery.groups.set_offsets(name, {small.output: CommittedOffset(offset=1, metadata=metadata, leader_epoch=None)})
    try:
        yield name
    finally:
        small.recovery.groups.delete(name)


@contextmanager
def sums_by_day(small: Small) -> Iterator[str]:
    """The changelog of one more store, which no configuration names."""
    more = f"{small.recovery.application_id}-sums-by-day-changelog"
    small.recovery.cluster.create_topic(more, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    yield more
    small.recovery.cluster.delete_topics([more])


@pytest.mark.deep
@pytest.mark.fault("F38")
@pytest.mark.parametrize("group", ["totals", "sums", "sums-by", "sums-by-day"])
def test_a_plain_consumer_group_takes_no_state_out_of_a_savepoint(small: Small, group: str) -> None:
    with sums_by_day(small) as more, namesake(small, group, metadata="read by nobody"):
        manifest = published(small)
        assert (manifest.consistency, manifest.claimed) == (Consistency.EXACT, ())
        assert set(manifest.unattributed) == {more}
        assert manifest.topic(small.changelog.topic) is not None


@pytest.mark.deep
@pytest.mark.fault("F38")
def test_an_application_of_a_longer_name_takes_no_topic_in_silence(small: Small) -> None:
    recovery = small.recovery
    with sums_by_day(small) as more, ExitStack() as stack:
        first = publish(small)
        group = stack.enter_context(namesake(small, "sums-by"))
        claimed = ClaimedTopic(topic=more, group=group, because=Claim.GROUP)
        assert discover(recovery).inventory.claimed == (claimed,)
        with pytest.raises(StateDamaged) as caught:
            take(small)
        [damage] = caught.value.facts["damage"]
        assert (damage.kind, damage.topic, damage.since, damage.taken_by) == (DamageKind.CLAIMED, more, first, group)
        assert "`stores`" in caught.value.next_step
        for sections in ({"stores": {"sums-by-day": {}}}, {"topics": {"owned": [more]}}):
            own = replace(recovery, config=configured(recovery, **sections))
            assert recovery.savepoints.read(take(small, recovery=own).savepoint_id).topic(more) is not None, (
                "what is named is the application's"
            )
            recovery.repository.delete([recovery.layout.manifest(recovery.savepoints.ids()[-1])])
        summary = take(small, changed_state=ChangedState.INTENDED)
        assert any(told.startswith(more) and f"assigned to {group}" in told for told in summary.warnings)
        manifest = recovery.savepoints.read(summary.savepoint_id)
        assert (manifest.claimed, manifest.topic(more)) == ((claimed,), None)

        # Whichever savepoint is restored: what may be another application's stays as it is, and the plan names it.
        for savepoint in (summary.savepoint_id, first):
            planned = restore.plan(recovery, asked(recovery, savepoint=savepoint, replace=True))
            assert planned.claimed == (claimed,)
            assert more not in {step.name for step in planned.create}
            assert f"| {more} | it is assigned to {group}" in planned.text
        assert any(told.startswith(f"{more} is in the savepoint and stays") for told in planned.warnings)
        anew = asked(recovery, restore.Rebuild, replace=True, delete=(small.changelog.topic,), offsets=Earliest(text="earliest"))
        assert restore.plan(recovery, anew).claimed == (claimed,)


@pytest.mark.fault("F38")
def test_an_application_that_takes_every_changelog_is_named(small: Small) -> None:
    small.recovery.cluster.delete_topics([small.changelog.topic])
    with sums_by_day(small) as more, namesake(small, "sums-by") as group, pytest.raises(Refused) as caught:
        take(small)
    assert caught.value.facts == {"application_id": small.recovery.application_id, "taken_by": {more: group}}
    assert "`stores`" in caught.value.next_step
