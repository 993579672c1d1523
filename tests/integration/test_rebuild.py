"""Rebuilding from the input on a real broker: what goes, what stays, and how it is undone."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from streams_recovery.core.errors import NotFound, PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, Profile, TopicPartition
from streams_recovery.core.offsets.strategy import OffsetStrategy, parse
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.plan import FROM_INPUT
from streams_recovery.core.text.restore_plan import markdown
from streams_recovery.core.topic_holds.compaction_guard import joined
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.operations import restore
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.maintenance.contents import holdings
from streams_recovery.operations.restore import OutputPolicy, RestoreRequest, RestoreTicket
from streams_recovery.operations.unfinished import unfinished_restore
from tests.integration.restoring import loaded, opened, saved, verified
from tests.integration.small import Small, asked, commit, delete_below, produce, publish, recreate, surviving
from tests.support.topic_settings import alter


def strategy(text: str) -> OffsetStrategy:
    return parse(text, group="", read=lambda _: b"")


def rebuild(bench: Workbench, offsets: str = "earliest", **changes: object) -> RestoreRequest:
    return asked(bench, savepoint=FROM_INPUT, replace=True, offsets=strategy(offsets), **changes)


def cleared(bench: Workbench, request: RestoreRequest) -> RestoreTicket:
    ticket = opened(bench, request)
    saved(bench, ticket)
    restore.prepare(bench, ticket)
    assert restore.plan_load(bench, ticket).spec is None
    restore.check_load(bench, ticket, None)
    return ticket


def committed(small: Small) -> dict[str, CommittedOffset | None]:
    found = small.bench.groups.committed(small.bench.application_id, [small.input, small.tail])
    return {tp.topic: known for tp, known in found.items()}


def end(small: Small, tp: TopicPartition) -> int:
    return small.bench.cluster.high_watermarks([tp])[tp]


def test_a_rebuild_deletes_what_is_internal_and_begins_where_it_was_said(small: Small) -> None:
    bench = small.bench
    publish(small)
    with pytest.raises(TargetNotEmpty, match=rf"{small.changelog.topic} \(4 offsets\)"):
        restore.plan(bench, asked(bench, savepoint=FROM_INPUT, offsets=strategy("earliest")))
    with pytest.raises(Refused, match="exact offsets belong to a savepoint's state"):
        restore.plan(bench, rebuild(bench, "exact"))
    planned = restore.plan(bench, rebuild(bench))
    assert [gone.name for gone in planned.delete] == sorted([small.changelog.topic, small.tail.topic])
    assert f"| {small.changelog.topic} | 4 | deleted |" in markdown(planned)
    assert f"| {small.input} | 4 | 0 |" in markdown(planned)

    ticket = cleared(bench, rebuild(bench))
    with pytest.raises(Refused, match="this step belongs between verified"):
        restore.set_offsets(bench, ticket)
    assert set(restore.verify_cleared(bench, ticket, verified(bench, ticket)).gone) == {small.changelog.topic, small.tail.topic}
    # The broker forgets offsets on a topic some time after the topic; whatever it has not forgotten by now is removed.
    commit(bench, {small.output: 3})
    assert restore.set_offsets(bench, ticket).removed >= 1
    assert bench.groups.committed(bench.application_id, [small.output]) == {small.output: None}
    assert committed(small) == {small.input.topic: CommittedOffset(offset=0, metadata="", leader_epoch=None), small.tail.topic: None}
    assert (end(small, small.output), restore.phase_of(bench, ticket)) == (4, Phase.OFFSETS_SET)
    assert unfinished_restore(bench) == ticket.restore_id
    restore.abandon(bench, ticket)

    back = opened(bench, asked(bench, savepoint=f"before:{ticket.restore_id}", replace=True))
    saved(bench, back)
    assert set(restore.prepare(bench, back).created) == {small.changelog.topic, small.tail.topic}
    restore.abandon(bench, back)


def test_nothing_is_begun_while_an_internal_topic_is_left(small: Small) -> None:
    bench = small.bench
    publish(small)
    ticket = cleared(bench, rebuild(bench))
    bench.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config={})
    with pytest.raises(TargetNotEmpty, match=f"still there, or there again: {small.changelog.topic}"):
        restore.verify_cleared(bench, ticket, verified(bench, ticket))
    restore.abandon(bench, ticket)


def test_what_belongs_to_a_neighbour_stays_and_what_nothing_proves_has_to_be_named(small: Small) -> None:
    bench = small.bench
    neighbour, unproven = f"{bench.application_id}-eu", f"{bench.application_id}-newer-changelog"
    for topic in (f"{neighbour}-totals-changelog", unproven):
        bench.cluster.create_topic(topic, partitions=1, replication_factor=1, config={})
    bench.groups.set_offsets(neighbour, {small.input: CommittedOffset(offset=1, metadata="", leader_epoch=None)})
    publish(small)
    bench.cluster.delete_topics([unproven])
    bench.cluster.create_topic(unproven[: -len("changelog")] + "er-changelog", partitions=1, replication_factor=1, config={})
    newer = unproven[: -len("changelog")] + "er-changelog"
    with pytest.raises(TargetNotEmpty, match=f"nothing but their names says that these topics are {bench.application_id}'s: {newer}"):
        restore.plan(bench, rebuild(bench))
    cleared(bench, rebuild(bench, delete=(newer,)))
    names = bench.cluster.topic_names()
    assert newer not in names
    assert f"{neighbour}-totals-changelog" in names
    bench.cluster.delete_topics([f"{neighbour}-totals-changelog"])


@pytest.mark.fault("F54")
def test_input_that_does_not_reach_back_is_refused_with_where_it_begins(small: Small) -> None:
    bench = small.bench
    publish(small)
    delete_below(bench, small.input, 2)
    with pytest.raises(Refused, match=f"{small.input} starts at 2; the state needs all of it, from offset 0"):
        restore.plan(bench, rebuild(bench))
    planned = restore.plan(bench, rebuild(bench, accept_gap=True))
    assert [item.offset for item in planned.offsets] == [2]
    assert restore.plan(bench, rebuild(bench, "shift:-1")).offsets[0].offset == 3
    assert restore.plan(bench, rebuild(bench, "duration:P1D")).offsets[0].offset == 2


def test_outputs_are_emptied_only_when_asked_for_and_keep_their_settings(small: Small) -> None:
    bench = small.bench
    publish(small)
    before = bench.cluster.describe_topics([small.output.topic])[small.output.topic]
    ticket = cleared(bench, rebuild(bench, outputs=OutputPolicy.RECREATE))
    after = bench.cluster.describe_topics([small.output.topic])[small.output.topic]
    assert (after.config, after.partitions, end(small, small.output)) == (before.config, before.partitions, 0)
    assert after.topic_id != before.topic_id
    restore.prepare(bench, ticket)
    assert end(small, small.output) == 0, "repeated, it finds its own"
    produce(bench, small.output, 1)
    recreate(bench, small.output.topic)
    produce(bench, small.output, 1)
    with pytest.raises(PlanChanged, match=f"were created since the plan was approved: {small.output.topic}"):
        restore.prepare(bench, ticket)
    restore.abandon(bench, ticket)


def test_outputs_that_are_emptied_get_their_owner_s_settings_not_those_of_a_hold(small: Small) -> None:
    bench, request = small.bench, rebuild(small.bench, outputs=OutputPolicy.RECREATE)
    publish(small)
    free = restore.plan(bench, request)
    for hold in (joined({}, 3, 20_000), restore_hold(free.create[0].final_config)):
        alter(bench.cluster, {small.output.topic: hold})
        held = restore.plan(bench, request)
        assert [step.final_config for step in held.create] == [step.final_config for step in free.create]
        assert held.hash == free.hash, "also when somebody's hold comes or goes while a plan is read"


def test_a_topic_that_was_made_anew_after_the_approval_is_not_deleted(small: Small) -> None:
    bench = small.bench
    publish(small)
    ticket = opened(bench, rebuild(bench))
    saved(bench, ticket)
    recreate(bench, small.changelog.topic)
    with pytest.raises(PlanChanged, match=f"created since the plan was approved: {small.changelog.topic}"):
        restore.prepare(bench, ticket)
    assert small.changelog.topic in bench.cluster.topic_names()
    restore.abandon(bench, ticket)


def test_another_plan_than_the_approved_one_stops_before_anything(small: Small) -> None:
    bench = small.bench
    publish(small)
    planned = restore.plan(bench, rebuild(bench))
    produce(bench, small.input, 3)
    assert restore.plan(bench, rebuild(bench)).hash == planned.hash, "input may go on while a plan is read"
    recreate(bench, small.tail.topic)
    with pytest.raises(PlanChanged):
        restore.open_restore(bench, rebuild(bench), run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)


def archiving(small: Small) -> Small:
    """The application with minimal savepoints that survive the loss of the cluster, and whose outputs are archived too."""
    topics = small.bench.config.topics.model_copy(update={"include": (small.output.topic,)})
    chosen = replace(small, bench=replace(small.bench, config=small.bench.config.model_copy(update={"topics": topics})))
    return surviving(chosen, profile=Profile.MINIMAL)


def emptied(small: Small) -> None:
    small.bench.cluster.delete_topics(small.topics)
    small.bench.groups.delete(small.bench.application_id)


def test_into_an_emptied_cluster_inputs_and_outputs_come_from_a_minimal_savepoint(small: Small) -> None:
    small = archiving(small)
    bench, savepoint = small.bench, publish(small)
    assert bench.savepoints.read(savepoint).profile is Profile.MINIMAL
    emptied(small)
    with pytest.raises(NotFound, match=f"do not exist: {small.input.topic}, {small.output.topic}.*--inputs-from"):
        restore.plan(bench, rebuild(bench))
    with pytest.raises(Refused, match=f"are begun at their start, not by 'latest': {small.input}"):
        restore.plan(bench, rebuild(bench, "latest", inputs_from=savepoint))

    planned = restore.plan(bench, rebuild(bench, inputs_from="latest"))
    assert (planned.savepoint_id, planned.inputs_from, planned.rows) == (None, savepoint, 5 + 4)
    assert [(item.tp, item.offset, item.metadata) for item in planned.offsets] == [(small.input, 0, "")]
    assert planned.observed.records_to_catch_up == 5
    page = markdown(planned)
    assert f"comes from savepoint `{savepoint}`" in page
    assert f"| {small.input.topic} | input | 1 | 5 |" in page

    ticket = opened(bench, rebuild(bench, inputs_from=savepoint))
    assert saved(bench, ticket).savepoint_id is None, "there was nothing left to save"
    assert loaded(bench, ticket) == 5 + 4
    found = verified(bench, ticket)
    assert found.rows_compared == 5 + 4
    with pytest.raises(Refused, match="this step belongs between verified"):
        restore.set_offsets(bench, ticket)
    restore.verify_cleared(bench, ticket, found)
    assert restore.verified_before(bench, ticket) == found, "for whoever resumes it"
    restore.set_offsets(bench, ticket)
    assert committed(small)[small.input.topic] == CommittedOffset(offset=0, metadata="", leader_epoch=None)
    assert (end(small, small.input), end(small, small.output)) == (5, 4)
    assert restore.phase_of(bench, ticket) is Phase.OFFSETS_SET
    assert savepoint in holdings(bench).in_use, "a restore that is not finished needs it"
    restore.abandon(bench, ticket)


def test_what_is_there_stays_and_outputs_can_begin_empty(small: Small) -> None:
    small = archiving(small)
    bench, savepoint = small.bench, publish(small)
    before = bench.cluster.describe_topics([small.input.topic])[small.input.topic]
    bench.cluster.delete_topics([small.output.topic])
    planned = restore.plan(bench, rebuild(bench, inputs_from=savepoint, outputs=OutputPolicy.RECREATE))
    assert [(step.name, step.rows) for step in planned.create] == [(small.output.topic, 0)]
    ticket = opened(bench, rebuild(bench, inputs_from=savepoint))
    saved(bench, ticket)
    assert loaded(bench, ticket) == 4
    assert bench.cluster.describe_topics([small.input.topic])[small.input.topic].topic_id == before.topic_id
    restore.abandon(bench, ticket)


@pytest.mark.fault("F54")
def test_an_archive_that_does_not_reach_back_is_refused_like_an_input_that_does_not(small: Small) -> None:
    delete_below(small.bench, small.input, 2)
    small = archiving(small)
    publish(small)
    emptied(small)
    with pytest.raises(Refused, match=f"{small.input} starts at 2; the state needs all of it, from offset 0"):
        restore.plan(small.bench, rebuild(small.bench, inputs_from="latest"))
    planned = restore.plan(small.bench, rebuild(small.bench, inputs_from="latest", accept_gap=True))
    assert ([item.offset for item in planned.offsets], planned.rows) == ([0], 3 + 4)


def test_a_savepoint_without_the_inputs_brings_none_back(small: Small) -> None:
    savepoint = publish(small)
    emptied(small)
    with pytest.raises(Refused, match=f"input {small.input.topic} is gone, and its records are not in the savepoint"):
        restore.plan(small.bench, rebuild(small.bench, inputs_from=savepoint))
