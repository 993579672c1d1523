"""Inputs that an application subscribes to by pattern: which topics these are is asked of the cluster at every savepoint, plan and start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.operations import restore
from streams_recovery.operations.discovery import input_partitions
from streams_recovery.operations.status.cluster import look_at_group
from tests.support.applications.restore_steps import loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import published, take
from tests.support.applications.small import Small, asked, configured_for, lose_state, small_application, surviving
from tests.support.applications.topic_records import commit, produce

pytestmark = pytest.mark.kafka


@pytest.fixture
def small(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """The application, which subscribes to all topics whose names begin like its first input's."""
    name = f"pattern{tmp_path.name[-8:].replace('_', '')}"
    topics = {"inputs": [], "input_patterns": [rf"{name}\.in(\..*)?"]}
    with small_application(bootstrap, tmp_path, name=name, topics=topics) as found:
        yield surviving(found)
        found.recovery.cluster.delete_topics([one for one in found.recovery.topics.inputs if one != found.input.topic])


def join(small: Small, *, committed: bool = True) -> TopicPartition:
    """A second topic that the pattern means, with three records of which two are processed."""
    tp = TopicPartition(f"{small.input.topic}.more", 0)
    small.recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={})
    produce(small.recovery, tp, 3)
    if committed:
        commit(small.recovery, {tp: 2})
    return tp


def inputs(small: Small, savepoint: str) -> set[str]:
    return {topic.name for topic in small.recovery.savepoints.read(savepoint).topics if topic.role is TopicRole.INPUT}


def restored(small: Small, request: restore.RestoreRequest) -> None:
    ticket = opened(small.recovery, request)
    saved(small.recovery, ticket)
    loaded(small.recovery, ticket)
    verified(small.recovery, ticket)
    restore.set_offsets(small.recovery, ticket)
    restore.wipe(small.recovery, ticket)
    restore.start(small.recovery, ticket)


@pytest.mark.deep
def test_a_topic_joins_and_one_that_is_gone_is_named(small: Small) -> None:
    first = take(small)
    assert inputs(small, first.savepoint_id) == {small.input.topic}
    assert not [told for told in first.warnings if "among the inputs" in told], "there is nothing before it to compare with"
    other = join(small, committed=False)
    assert look_at_group(small.recovery).behind >= 3, "nothing is committed on it yet, and all of it is to be read"
    second = take(small)
    assert inputs(small, second.savepoint_id) == {small.input.topic, other.topic}
    assert [told for told in second.warnings if told == f"new among the inputs since {first.savepoint_id}: {other.topic}"]
    assert not [told for told in take(small).warnings if "among the inputs" in told]
    small.recovery.cluster.delete_topics([other.topic])
    fourth = take(small)
    assert inputs(small, fourth.savepoint_id) == {small.input.topic}
    assert [told for told in fourth.warnings if told.startswith("no longer among the inputs") and other.topic in told]


@pytest.mark.deep
def test_a_restore_reads_what_has_joined_since_from_its_beginning(small: Small) -> None:
    before = take(small).savepoint_id
    other = join(small)
    lose_state(small)
    request = asked(small.recovery, savepoint=before, replace=True)
    planned = restore.plan(small.recovery, request)
    (told,) = [told for told in planned.warnings if told.startswith("read since the savepoint")]
    assert other.topic in told
    assert told in planned.text
    assert planned.observed.records_to_catch_up == 1 + 3
    restored(small, request)
    committed = small.recovery.groups.committed(small.recovery.application_id, [small.input, other])
    assert {tp: known.offset for tp, known in committed.items() if known is not None} == {small.input: 4, other: 0}


def test_an_application_that_begins_at_the_ends_goes_back_to_the_time_of_the_savepoint(small: Small) -> None:
    manifest = published(small)
    other = join(small)
    lose_state(small)
    recovery = configured_for(small, application={"auto_offset_reset": "latest"})
    planned = restore.plan(recovery, asked(recovery, savepoint=manifest.savepoint_id))
    assert {item.tp: item.wanted.offset for item in planned.offsets}[other] == 0, "its records came after the savepoint"
    assert [told for told in planned.warnings if "begin at the time of the savepoint" in told]


@pytest.mark.deep
def test_a_topic_that_is_gone_comes_back_with_the_savepoint_that_has_it(small: Small) -> None:
    other = join(small)
    before = take(small).savepoint_id
    small.recovery.cluster.delete_topics([other.topic])
    lose_state(small)
    planned = restore.plan(small.recovery, asked(small.recovery, savepoint=before))
    assert other.topic in {step.name for step in planned.create}
    restored(small, asked(small.recovery, savepoint=before, replace=True))
    assert small.recovery.cluster.high_watermarks([other]) == {other: 3}
    committed = small.recovery.groups.committed(small.recovery.application_id, [other])[other]
    assert committed is not None
    assert committed.offset == 2


def test_a_topic_that_is_read_and_configured_nowhere_is_no_exception(bootstrap: str, tmp_path: Path) -> None:
    """Without any pattern: what the lost state had of it would be skipped just as well."""
    with small_application(bootstrap, tmp_path) as small:
        before = take(small).savepoint_id
        other = join(small)
        lose_state(small)
        planned = restore.plan(small.recovery, asked(small.recovery, savepoint=before))
        assert {item.tp: item.wanted.offset for item in planned.offsets}[other] == 0
        small.recovery.cluster.delete_topics([other.topic])


def test_without_any_topic_that_the_patterns_mean_there_is_no_input(small: Small) -> None:
    assert input_partitions(small.recovery) == [small.input]
    small.recovery.cluster.delete_topics([small.input.topic])
    with pytest.raises(NotFound, match=r"do not exist: pattern"):
        input_partitions(small.recovery)
