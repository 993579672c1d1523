"""Restores to where the savepoint was not taken: inputs that are gone, and another application id. On a real broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.operations import restore
from streams_recovery.operations.context import open_context
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, configured
from tests.support.applications.topic_records import produce


@pytest.fixture
def archiving(small: Small) -> Small:
    """The small application, whose savepoints have its input's records too. Its input no longer begins at offset 0."""
    recovery = replace(small.recovery, config=configured(small.recovery, topics={"include": [small.input.topic]}))
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    [done] = admin.delete_records([ClientPartition(small.input.topic, 0, 2)]).values()
    done.result(30)
    return replace(small, recovery=recovery)


def offsets(planned: restore.RestorePlan) -> dict[TopicPartition, tuple[int, str]]:
    return {item.tp: (item.wanted.offset, item.wanted.metadata) for item in planned.offsets}


@pytest.mark.deep
def test_an_input_that_is_gone_comes_from_the_savepoint_with_its_offsets_translated(archiving: Small) -> None:
    recovery, savepoint = archiving.recovery, publish(archiving)
    recovery.cluster.delete_topics([archiving.input.topic, archiving.output.topic, archiving.changelog.topic, archiving.tail.topic])
    ticket = opened(recovery, asked(recovery, savepoint=savepoint))
    planned = restore.plan(recovery, ticket.request)
    # Records 2, 3 and 4 are now 0, 1 and 2: what was to be read next, 4, is now 2.
    assert offsets(planned) == {archiving.input: (2, "AgAA"), archiving.tail: (0, "")}
    assert planned.observed.records_to_catch_up == 1
    saved(recovery, ticket)
    assert loaded(recovery, ticket) == 3 + 4 + 3
    ends = recovery.cluster.high_watermarks([archiving.input, archiving.output])
    assert ends == {archiving.input: 3, archiving.output: 0}, "the output exists, and is empty"
    restore.abandon(recovery, ticket)


def test_an_input_that_somebody_filled_again_is_refused_and_left_alone(archiving: Small) -> None:
    recovery, savepoint = archiving.recovery, publish(archiving)
    recovery.cluster.delete_topics([archiving.input.topic, archiving.changelog.topic, archiving.tail.topic])
    recovery.cluster.create_topic(archiving.input.topic, partitions=1, replication_factor=1, config={})
    assert archiving.input.topic in {topic.name for topic in restore.plan(recovery, asked(recovery, savepoint=savepoint)).create}, (
        "while empty"
    )
    produce(recovery, archiving.input, 1)
    with pytest.raises(Refused, match="offsets mean nothing") as caught:
        restore.plan(recovery, asked(recovery, savepoint=savepoint))
    assert [archiving.input.topic in problem for problem in caught.value.facts["problems"]] == [True]
    assert recovery.cluster.high_watermarks([archiving.input])[archiving.input] == 1


def clone_of(small: Small, **topics: object) -> ApplicationConfig:
    output = f"{small.recovery.application_id}-2.out"
    return configured(
        small.recovery,
        application={"id": f"{small.recovery.application_id}-2"},
        topics={"outputs": [output], **topics},
        restore={"topic_map": {small.output.topic: output}},
    )


@pytest.mark.way("clone")
@pytest.mark.fault("F53")
def test_a_clone_begins_with_the_state_of_the_old_application_and_touches_nothing_of_it(small: Small, tmp_path: Path) -> None:
    old, savepoint = small.recovery, publish(small)
    before = old.cluster.describe_topics([small.input.topic, small.output.topic, small.changelog.topic, small.tail.topic])
    kafka = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": old.connection.bootstrap_servers}})
    }
    with open_context(clone_of(small), EnvironmentConnections(kafka)) as recovery:
        request = asked(recovery, source=old.application_id, savepoint=savepoint)
        planned = restore.plan(recovery, request)
        name = recovery.application_id
        assert [topic.name for topic in planned.create] == [f"{name}-by-key-repartition", f"{name}-totals-changelog", f"{name}.out"]
        assert offsets(planned) == {small.input: (4, "AgAA"), TopicPartition(f"{name}-by-key-repartition", 0): (0, "")}
        ticket = opened(recovery, request)
        assert saved(recovery, ticket).savepoint_id is None
        assert loaded(recovery, ticket) == 7
        assert recovery.cluster.high_watermarks([TopicPartition(f"{name}-totals-changelog", 0)]).popitem()[1] == 4
        restore.abandon(recovery, ticket)
        recovery.cluster.delete_topics([topic.name for topic in planned.create])
    assert old.cluster.describe_topics(list(before)) == before
    committed = old.groups.committed(old.application_id, [small.input])[small.input]
    assert committed == CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)
    assert old.cluster.high_watermarks([small.output])[small.output] == 4
    assert old.lock.holder() is None


@pytest.mark.deep
def test_a_clone_without_outputs_of_its_own_is_refused(small: Small) -> None:
    savepoint = publish(small)
    careless = replace(small.recovery, config=configured(small.recovery, application={"id": f"{small.recovery.application_id}-2"}))
    with pytest.raises(Refused, match=f"output {small.output.topic} would be written by"):
        restore.plan(careless, asked(careless, source=small.recovery.application_id, savepoint=savepoint))


@pytest.mark.deep
def test_a_clone_that_exists_already_is_not_overwritten(small: Small) -> None:
    savepoint = publish(small)
    recovery = replace(small.recovery, config=clone_of(small))
    living = TopicPartition(f"{recovery.application_id}-totals-changelog", 0)
    recovery.cluster.create_topic(living.topic, partitions=1, replication_factor=1, config={})
    produce(recovery, living, 2)
    try:
        with pytest.raises(TargetNotEmpty, match=rf"{living.topic} \(2 offsets\)"):
            restore.plan(recovery, asked(recovery, source=small.recovery.application_id, savepoint=savepoint))
    finally:
        recovery.cluster.delete_topics([living.topic])
