"""Rebuilding from the input on a real broker: what goes, what stays, and how it is undone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import Damaged, NotFound, PlanChanged, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import Claim, CommittedOffset, Evidence, Profile, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.topic_holds.compaction_guard import joined
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.contents import holdings
from streams_recovery.operations.restore import OutputPolicy
from streams_recovery.operations.restore.verify import require_verified
from streams_recovery.operations.unfinished import unfinished_restore
from tests.support.applications.rebuilds import archiving, cleared, rebuild, strategy
from tests.support.applications.restore_steps import loaded, opened, reach, saved, verified
from tests.support.applications.savepoint_steps import publish, take
from tests.support.applications.small import STREAMS_METADATA, Small, asked, configured_for, lose, lose_state
from tests.support.applications.topic_records import commit, delete_below, produce, recreate
from tests.support.applications.twins import STREAM_TIME, Twin, twin
from tests.support.kafka.consumers import cli
from tests.support.kafka.topic_settings import alter


def committed(small: Small) -> dict[str, CommittedOffset | None]:
    found = small.recovery.groups.committed(small.recovery.application_id, [small.input, small.tail])
    return {tp.topic: known for tp, known in found.items()}


def end(small: Small, tp: TopicPartition) -> int:
    return small.recovery.cluster.high_watermarks([tp])[tp]


@pytest.mark.way("rebuild")
@pytest.mark.fault("F82")
def test_a_rebuild_deletes_what_is_internal_and_begins_where_it_was_said(small: Small) -> None:
    recovery = small.recovery
    publish(small)
    # A savepoint has the changelog, and knows no more than its name either.
    with pytest.raises(TargetNotEmpty, match="nothing but their names") as unproven:
        restore.plan(recovery, asked(recovery, restore.Rebuild, replace=True, offsets=strategy("earliest")))
    assert unproven.value.facts == {"topics": [small.changelog.topic]}
    assert restore.plan(recovery, asked(recovery, replace=True)).evidence[small.changelog.topic] is Evidence.NAME
    with pytest.raises(TargetNotEmpty, match=rf"{small.changelog.topic} \(4 offsets\)"):
        restore.plan(recovery, asked(recovery, restore.Rebuild, delete=(small.changelog.topic,), offsets=strategy("earliest")))
    with pytest.raises(Refused) as caught:
        restore.plan(recovery, rebuild(recovery, "exact"))
    assert caught.value.facts == {"strategy": "exact"}
    planned = restore.plan(recovery, rebuild(recovery))
    assert [gone.name for gone in planned.delete] == sorted([small.changelog.topic, small.tail.topic])
    assert f"| {small.changelog.topic} | 4 | deleted |" in planned.text
    assert f"| {small.input} | 4 | 0 |" in planned.text

    ticket = cleared(recovery, rebuild(recovery))
    with pytest.raises(Refused, match="this step belongs between verified"):
        restore.set_offsets(recovery, ticket)
    assert set(restore.verify_cleared(recovery, ticket, verified(recovery, ticket)).gone) == {small.changelog.topic, small.tail.topic}
    # The broker forgets offsets on a topic some time after the topic; whatever it has not forgotten by now is removed.
    commit(recovery, {small.output: 3})
    assert restore.set_offsets(recovery, ticket).removed >= 1
    assert recovery.groups.committed(recovery.application_id, [small.output]) == {small.output: None}
    assert committed(small) == {small.input.topic: CommittedOffset(offset=0, metadata="", leader_epoch=None), small.tail.topic: None}
    assert (end(small, small.output), restore.phase_of(recovery, ticket)) == (4, Phase.OFFSETS_SET)
    assert unfinished_restore(recovery) == ticket.restore_id
    restore.abandon(recovery, ticket)

    back = opened(recovery, asked(recovery, restore.Undo, restore_id=ticket.restore_id, replace=True))
    saved(recovery, back)
    assert set(restore.prepare(recovery, back).created) == {small.changelog.topic, small.tail.topic}
    restore.abandon(recovery, back)


@pytest.mark.deep
def test_nothing_is_begun_while_an_internal_topic_is_left(small: Small) -> None:
    recovery = small.recovery
    publish(small)
    ticket = cleared(recovery, rebuild(recovery))
    recovery.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config={})
    with pytest.raises(TargetNotEmpty, match=f"still there, or there again: {small.changelog.topic}"):
        restore.verify_cleared(recovery, ticket, verified(recovery, ticket))
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_what_belongs_to_a_neighbour_stays_and_what_nothing_proves_has_to_be_named(small: Small) -> None:
    recovery = small.recovery
    neighbour, unproven = f"{recovery.application_id}-eu", f"{recovery.application_id}-newer-changelog"
    for topic in (f"{neighbour}-totals-changelog", unproven):
        recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config={})
    recovery.groups.set_offsets(neighbour, {small.input: CommittedOffset(offset=1, metadata=STREAMS_METADATA, leader_epoch=None)})
    publish(small)
    recovery.cluster.delete_topics([unproven])
    recovery.cluster.create_topic(unproven[: -len("changelog")] + "er-changelog", partitions=1, replication_factor=1, config={})
    newer = unproven[: -len("changelog")] + "er-changelog"
    with pytest.raises(TargetNotEmpty, match="but their names") as caught:
        restore.plan(recovery, rebuild(recovery))
    assert caught.value.facts == {"topics": [newer]}
    cleared(recovery, rebuild(recovery, delete=(newer,)))
    names = recovery.cluster.topic_names()
    assert newer not in names
    assert f"{neighbour}-totals-changelog" in names
    recovery.cluster.delete_topics([f"{neighbour}-totals-changelog"])


@contextmanager
def longer_application(small: Small) -> Iterator[tuple[str, dict[str, str]]]:
    """Another application, whose id begins like this one's: its id, and its internal topics with their ids. They are gone at the end."""
    recovery, other = small.recovery, f"{small.recovery.application_id}-v1"
    topics = [f"{other}-counts-changelog", f"{other}-by-key-repartition"]
    for topic in topics:
        recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config={})
        produce(recovery, TopicPartition(topic, 0), 3)
    recovery.groups.set_offsets(other, {small.input: CommittedOffset(offset=1, metadata=STREAMS_METADATA, leader_epoch=None)})
    yield other, {name: found.topic_id for name, found in recovery.cluster.describe_topics(topics).items()}
    recovery.cluster.delete_topics([topic for topic in topics if topic in recovery.cluster.topic_names()])


def ids(recovery: RecoveryContext, topics: Collection[str]) -> dict[str, str]:
    return {name: found.topic_id for name, found in recovery.cluster.describe_topics(topics).items()}


@pytest.mark.deep
def test_another_application_whose_group_is_gone_loses_nothing_to_the_shorter_id(small: Small) -> None:
    recovery = small.recovery
    with longer_application(small) as (other, theirs):
        recovery.groups.delete(other)
        summary = take(small)
        assert any("saved, and no restore" in told and all(topic in told for topic in theirs) for told in summary.warnings)
        manifest = recovery.savepoints.read(summary.savepoint_id)
        assert set(manifest.unattributed) == set(theirs), "no state is left out, and nothing says whose this is"
        for request in (rebuild(recovery), asked(recovery, savepoint=summary.savepoint_id, replace=True)):
            with pytest.raises(TargetNotEmpty, match="but their names") as caught:
                restore.plan(recovery, request)
            assert set(caught.value.facts["topics"]) == set(theirs)
        assert ids(recovery, theirs) == theirs

        told = configured_for(small, topics={"foreign": sorted(theirs)})
        planned = restore.plan(told, asked(told, savepoint=summary.savepoint_id, replace=True))
        assert not {step.name for step in planned.create} & set(theirs)
        assert {one.topic: one.because for one in planned.claimed} == dict.fromkeys(theirs, Claim.FOREIGN)
        assert all(any(topic in warning for warning in planned.warnings) for topic in theirs)
        cleared(told, rebuild(told))
        assert ids(recovery, [*theirs, small.changelog.topic, small.tail.topic]) == theirs


@pytest.mark.deep
def test_an_application_that_a_savepoint_has_seen_keeps_its_topics_when_its_group_is_gone(small: Small) -> None:
    recovery = small.recovery
    with longer_application(small) as (other, theirs):
        first = recovery.savepoints.read(publish(small))
        assert {one.topic: (one.group, one.because) for one in first.claimed} == dict.fromkeys(theirs, (other, Claim.GROUP))
        recovery.groups.delete(other)
        second = recovery.savepoints.read(publish(small))
        assert {one.topic: (one.group, one.because) for one in second.claimed} == dict.fromkeys(theirs, (other, Claim.SAVEPOINT))
        assert second.unattributed == ()
        planned = restore.plan(recovery, rebuild(recovery))
        assert set(planned.evidence) == {small.changelog.topic, small.tail.topic}
        cleared(recovery, rebuild(recovery))
        assert ids(recovery, [*theirs, small.changelog.topic, small.tail.topic]) == theirs


@pytest.mark.deep
def test_another_configured_application_keeps_its_topics(small: Small) -> None:
    recovery = small.recovery
    with longer_application(small) as (other, theirs):
        recovery.groups.delete(other)
        here = replace(recovery, configured=lambda: {other: frozenset()})
        publish(replace(small, recovery=here))
        planned = restore.plan(here, rebuild(here))
        assert {one.topic: (one.group, one.because) for one in planned.claimed} == dict.fromkeys(theirs, (other, Claim.CONFIGURED))
        assert set(planned.evidence) == {small.changelog.topic, small.tail.topic}


@pytest.mark.fault("F54")
def test_input_that_does_not_reach_back_is_refused_with_where_it_begins(small: Small) -> None:
    recovery = small.recovery
    publish(small)
    delete_below(recovery, small.input, 2)
    with pytest.raises(Refused) as caught:
        restore.plan(recovery, rebuild(recovery))
    assert caught.value.facts == {"gap": {str(small.input): 2}}
    planned = restore.plan(recovery, rebuild(recovery, accept_gap=True))
    assert [item.wanted.offset for item in planned.offsets] == [2]
    assert restore.plan(recovery, rebuild(recovery, "shift:-1")).offsets[0].wanted.offset == 3
    assert restore.plan(recovery, rebuild(recovery, "duration:P1D")).offsets[0].wanted.offset == 2


@pytest.mark.deep
def test_outputs_are_emptied_only_when_asked_for_and_keep_their_settings(small: Small) -> None:
    recovery = small.recovery
    publish(small)
    before = recovery.cluster.describe_topics([small.output.topic])[small.output.topic]
    ticket = cleared(recovery, rebuild(recovery, outputs=OutputPolicy.RECREATE))
    after = recovery.cluster.describe_topics([small.output.topic])[small.output.topic]
    assert (after.config, after.partitions, end(small, small.output)) == (before.config, before.partitions, 0)
    assert after.topic_id != before.topic_id
    restore.prepare(recovery, ticket)
    assert end(small, small.output) == 0, "repeated, it finds its own"
    produce(recovery, small.output, 1)
    recreate(recovery, small.output.topic)
    produce(recovery, small.output, 1)
    with pytest.raises(PlanChanged, match="were created since") as caught:
        restore.prepare(recovery, ticket)
    assert caught.value.facts == {"topics": [small.output.topic]}
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_outputs_that_are_emptied_get_their_owner_s_settings_not_those_of_a_hold(small: Small) -> None:
    recovery, request = small.recovery, rebuild(small.recovery, outputs=OutputPolicy.RECREATE)
    publish(small)
    free = restore.plan(recovery, request)
    for hold in (joined({}, 3, 20_000), restore_hold(free.create[0].final_config)):
        alter(recovery.cluster, {small.output.topic: hold})
        held = restore.plan(recovery, request)
        assert [step.final_config for step in held.create] == [step.final_config for step in free.create]
        assert held.hash == free.hash, "also when somebody's hold comes or goes while a plan is read"


@pytest.mark.deep
def test_a_topic_that_was_made_anew_after_the_approval_is_not_deleted(small: Small) -> None:
    recovery = small.recovery
    publish(small)
    ticket = opened(recovery, rebuild(recovery))
    saved(recovery, ticket)
    recreate(recovery, small.changelog.topic)
    with pytest.raises(PlanChanged, match="were created since") as caught:
        restore.prepare(recovery, ticket)
    assert caught.value.facts == {"topics": [small.changelog.topic]}
    assert small.changelog.topic in recovery.cluster.topic_names()
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_another_plan_than_the_approved_one_stops_before_anything(small: Small) -> None:
    recovery = small.recovery
    publish(small)
    planned = restore.plan(recovery, rebuild(recovery))
    produce(recovery, small.input, 3)
    assert restore.plan(recovery, rebuild(recovery)).hash == planned.hash, "input may go on while a plan is read"
    recreate(recovery, small.tail.topic)
    with pytest.raises(PlanChanged):
        restore.open_restore(recovery, rebuild(recovery), run_id=uuid.uuid4().hex, requested_by="test", approved_hash=planned.hash)


@pytest.mark.deep
def test_into_an_emptied_cluster_inputs_and_outputs_come_from_a_minimal_savepoint(small: Small) -> None:
    small = archiving(small)
    recovery, savepoint = small.recovery, publish(small)
    assert recovery.savepoints.read(savepoint).profile is Profile.MINIMAL
    lose(small)
    with pytest.raises(NotFound, match=f"do not exist: {small.input.topic}, {small.output.topic}.*--inputs-from"):
        restore.plan(recovery, rebuild(recovery))
    with pytest.raises(Refused) as caught:
        restore.plan(recovery, rebuild(recovery, "latest", inputs_from=savepoint))
    assert caught.value.facts == {"strategy": "latest", "archived": [str(small.input)]}

    planned = restore.plan(recovery, rebuild(recovery, inputs_from="latest"))
    assert (planned.savepoint_id, planned.part.inputs_from, planned.rows) == (None, savepoint, 5 + 4)
    assert [(item.tp, item.wanted.offset, item.wanted.metadata) for item in planned.offsets] == [(small.input, 0, "")]
    assert planned.observed.records_to_catch_up == 5
    page = planned.text
    assert f"come from savepoint `{savepoint}`" in page
    assert f"| {small.input.topic} | input | 1 | 5 |" in page

    ticket = opened(recovery, rebuild(recovery, inputs_from=savepoint))
    assert saved(recovery, ticket).savepoint_id is None, "there was nothing left to save"
    assert loaded(recovery, ticket) == 5 + 4
    found = verified(recovery, ticket)
    assert found.rows_compared == 5 + 4
    with pytest.raises(Refused, match="this step belongs between verified"):
        restore.set_offsets(recovery, ticket)
    restore.verify_cleared(recovery, ticket, found)
    assert require_verified(recovery, ticket) == found, "for whoever resumes it"
    restore.set_offsets(recovery, ticket)
    assert committed(small)[small.input.topic] == CommittedOffset(offset=0, metadata="", leader_epoch=None)
    assert (end(small, small.input), end(small, small.output)) == (5, 4)
    assert restore.phase_of(recovery, ticket) is Phase.OFFSETS_SET
    assert savepoint in holdings(recovery).in_use, "a restore that is not finished needs it"
    restore.abandon(recovery, ticket)


@pytest.mark.deep
def test_what_is_there_stays_and_outputs_can_begin_empty(small: Small) -> None:
    small = archiving(small)
    recovery, savepoint = small.recovery, publish(small)
    before = recovery.cluster.describe_topics([small.input.topic])[small.input.topic]
    recovery.cluster.delete_topics([small.output.topic])
    planned = restore.plan(recovery, rebuild(recovery, inputs_from=savepoint, outputs=OutputPolicy.RECREATE))
    assert [(step.name, step.rows) for step in planned.create] == [(small.output.topic, 0)]
    ticket = opened(recovery, rebuild(recovery, inputs_from=savepoint))
    saved(recovery, ticket)
    assert loaded(recovery, ticket) == 4
    assert recovery.cluster.describe_topics([small.input.topic])[small.input.topic].topic_id == before.topic_id
    restore.abandon(recovery, ticket)


@pytest.mark.fault("F54")
def test_an_archive_that_does_not_reach_back_is_refused_like_an_input_that_does_not(small: Small) -> None:
    delete_below(small.recovery, small.input, 2)
    small = archiving(small)
    publish(small)
    lose(small)
    with pytest.raises(Refused) as caught:
        restore.plan(small.recovery, rebuild(small.recovery, inputs_from="latest"))
    assert caught.value.facts == {"gap": {str(small.input): 2}}
    planned = restore.plan(small.recovery, rebuild(small.recovery, inputs_from="latest", accept_gap=True))
    assert ([item.wanted.offset for item in planned.offsets], planned.rows) == ([0], 3 + 4)


@pytest.mark.deep
def test_a_savepoint_without_the_inputs_brings_none_back(small: Small) -> None:
    savepoint = publish(small)
    lose(small)
    with pytest.raises(Refused, match="is gone") as caught:
        restore.plan(small.recovery, rebuild(small.recovery, inputs_from=savepoint))
    assert caught.value.facts["topics"] == [small.input.topic]


@pytest.fixture
def two_inputs(bootstrap: str, tmp_path: Path) -> Iterator[Twin]:
    with twin(bootstrap, tmp_path) as found:
        publish(found.small)
        yield found


@pytest.mark.deep
def test_a_rebuild_of_part_of_the_input_has_to_be_confirmed(two_inputs: Twin, tmp_path: Path) -> None:
    recovery = two_inputs.recovery
    # Nothing else of it would have to be confirmed: there is no state to replace.
    lose_state(two_inputs.small)
    request = asked(recovery, restore.Rebuild, offsets=strategy("earliest"), input_topics=(two_inputs.first,), confirm="")
    planned = restore.plan(recovery, request)
    assert (planned.offsets_agree, {tp.topic for tp in planned.offsets_kept}) == (False, {two_inputs.second})
    assert any("the new state lacks up to 3 records before these" in told for told in planned.warnings)
    assert f"| {two_inputs.second}-0 | 2 | stays |" in planned.text
    # Five records of one input again, and four and two of the other that were not read yet.
    assert planned.observed.records_to_catch_up == 5 + 4 + 2
    with pytest.raises(Refused, match=r"disagree with the state.*type the application id"):
        restore.open_restore(recovery, request, run_id="r", requested_by="test", approved_hash=planned.hash)
    assert recovery.lock.holder() is None
    with pytest.raises(Refused, match=f"these are no inputs: nobody; the inputs are: {two_inputs.first}, {two_inputs.second}"):
        restore.plan(recovery, rebuild(recovery, input_topics=("nobody",)))
    code, out, err = cli(tmp_path, recovery, "rebuild", "small", "--plan", "--input-topics", two_inputs.first, "--json")
    assert code == 0, err
    assert [item["tp"] for item in json.loads(out)["offsets"]] == [str(two_inputs.small.input)]


@pytest.mark.deep
def test_an_input_that_is_left_out_goes_on_where_the_application_stopped_and_not_where_it_was_planned(two_inputs: Twin) -> None:
    recovery, kept = two_inputs.recovery, TopicPartition(two_inputs.second, 0)
    request = rebuild(recovery, input_topics=(two_inputs.first,))
    approved = restore.plan(recovery, request).hash
    later = CommittedOffset(offset=3, metadata=STREAM_TIME, leader_epoch=None)
    recovery.groups.set_offsets(recovery.application_id, {kept: later})
    assert restore.plan(recovery, request).hash == approved, "the application may go on while a plan is read"
    ticket = cleared(recovery, request)
    compared = verified(recovery, ticket)
    assert set(restore.verify_cleared(recovery, ticket, compared).gone) == set(two_inputs.internal)
    assert restore.set_offsets(recovery, ticket).partitions == 1
    assert two_inputs.offsets() == {"app.in-0": (0, ""), "app.second-0": (3, STREAM_TIME), "app.second-1": (1, STREAM_TIME)}
    reach(recovery, ticket, Phase.WIPED)
    recovery.groups.set_offsets(recovery.application_id, {kept: None})
    with pytest.raises(Damaged, match=rf"1 committed offsets .* {kept}: nothing in place of 3"):
        restore.start(recovery, ticket)
    restore.set_offsets(recovery, ticket)
    assert two_inputs.offsets()["app.second-0"] == (3, ""), "a resume sets what was lost; what went on is not touched"
    assert two_inputs.offsets()["app.second-1"] == (1, STREAM_TIME)
    recovery.groups.set_offsets(recovery.application_id, {kept: None})
    reach(recovery, ticket, Phase.STARTED)
    with pytest.raises(Damaged, match=rf"1 of its committed offsets are gone: {kept}: nothing in place of 3"):
        restore.start(recovery, ticket)
    recovery.groups.set_offsets(recovery.application_id, {kept: later})
    assert restore.start(recovery, ticket).ends == {two_inputs.small.input: 5, kept: 6, TopicPartition(two_inputs.second, 1): 3}
    with pytest.raises(Refused, match="is in phase started"):
        restore.finish(recovery, ticket, compared, ())
    reach(recovery, ticket, Phase.RECOVERED)
    report = restore.finish(recovery, ticket, compared, ())
    assert report.strategy == f"earliest; kept: {two_inputs.second}"
