"""Restores to where the savepoint was not taken: inputs that are gone, and another application id. On a real broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.operations import restore
from streams_recovery.operations.context import Workbench, open_workbench
from tests.integration.restoring import loaded, opened, saved
from tests.integration.small import Small, asked, produce, publish


def configured(bench: Workbench, **sections: dict[str, object]) -> ApplicationConfig:
    """The bench's configuration with some keys changed."""
    plain = json.loads(bench.config.model_dump_json())
    for name, section in sections.items():
        plain[name] |= section
    return ApplicationConfig.model_validate(plain)


@pytest.fixture
def archiving(small: Small) -> Small:
    """The small application, whose savepoints have its input's records too. Its input no longer begins at offset 0."""
    bench = replace(small.bench, config=configured(small.bench, topics={"include": [small.input.topic]}))
    admin = AdminClient({"bootstrap.servers": bench.connection.bootstrap_servers, "log_level": 0})
    [done] = admin.delete_records([ClientPartition(small.input.topic, 0, 2)]).values()
    done.result(30)
    return replace(small, bench=bench)


def offsets(planned: restore.RestorePlan) -> dict[TopicPartition, tuple[int, str]]:
    return {item.tp: (item.offset, item.metadata) for item in planned.offsets}


def test_an_input_that_is_gone_comes_from_the_savepoint_with_its_offsets_translated(archiving: Small) -> None:
    bench, savepoint = archiving.bench, publish(archiving)
    bench.cluster.delete_topics([archiving.input.topic, archiving.output.topic, archiving.changelog.topic, archiving.tail.topic])
    ticket = opened(bench, asked(bench, savepoint=savepoint))
    planned = restore.plan(bench, ticket.request)
    # Records 2, 3 and 4 are now 0, 1 and 2: what was to be read next, 4, is now 2.
    assert offsets(planned) == {archiving.input: (2, "AgAA"), archiving.tail: (0, "")}
    assert planned.observed.records_to_catch_up == 1
    saved(bench, ticket)
    assert loaded(bench, ticket) == 3 + 4 + 3
    ends = bench.cluster.high_watermarks([archiving.input, archiving.output])
    assert ends == {archiving.input: 3, archiving.output: 0}, "the output exists, and is empty"
    restore.abandon(bench, ticket)


def test_an_input_that_somebody_filled_again_is_refused_and_left_alone(archiving: Small) -> None:
    bench, savepoint = archiving.bench, publish(archiving)
    bench.cluster.delete_topics([archiving.input.topic, archiving.changelog.topic, archiving.tail.topic])
    bench.cluster.create_topic(archiving.input.topic, partitions=1, replication_factor=1, config={})
    assert archiving.input.topic in {topic.name for topic in restore.plan(bench, asked(bench, savepoint=savepoint)).create}, "while empty"
    produce(bench, archiving.input, 1)
    with pytest.raises(Refused, match=f"input {archiving.input.topic} holds records and is not the topic of the savepoint"):
        restore.plan(bench, asked(bench, savepoint=savepoint))
    assert bench.cluster.high_watermarks([archiving.input])[archiving.input] == 1


def clone_of(small: Small, **topics: object) -> ApplicationConfig:
    output = f"{small.bench.application_id}-2.out"
    return configured(
        small.bench,
        application={"id": f"{small.bench.application_id}-2"},
        topics={"outputs": [output], **topics},
        restore={"topic_map": {small.output.topic: output}},
    )


@pytest.mark.fault("F53")
def test_a_clone_begins_with_the_state_of_the_old_application_and_touches_nothing_of_it(small: Small, tmp_path: Path) -> None:
    old, savepoint = small.bench, publish(small)
    before = old.cluster.describe_topics([small.input.topic, small.output.topic, small.changelog.topic, small.tail.topic])
    kafka = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": old.connection.bootstrap_servers}})
    }
    with open_workbench(clone_of(small), EnvironmentConnections(kafka)) as bench:
        request = asked(bench, source=old.application_id, savepoint=savepoint)
        planned = restore.plan(bench, request)
        name = bench.application_id
        assert [topic.name for topic in planned.create] == [f"{name}-by-key-repartition", f"{name}-totals-changelog", f"{name}.out"]
        assert offsets(planned) == {small.input: (4, "AgAA"), TopicPartition(f"{name}-by-key-repartition", 0): (0, "")}
        ticket = opened(bench, request)
        assert saved(bench, ticket).savepoint_id is None
        assert loaded(bench, ticket) == 7
        assert bench.cluster.high_watermarks([TopicPartition(f"{name}-totals-changelog", 0)]).popitem()[1] == 4
        restore.abandon(bench, ticket)
        bench.cluster.delete_topics([topic.name for topic in planned.create])
    assert old.cluster.describe_topics(list(before)) == before
    committed = old.groups.committed(old.application_id, [small.input])[small.input]
    assert committed == CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)
    assert old.cluster.high_watermarks([small.output])[small.output] == 4
    assert old.lock.holder() is None


def test_a_clone_without_outputs_of_its_own_is_refused(small: Small) -> None:
    savepoint = publish(small)
    careless = replace(small.bench, config=configured(small.bench, application={"id": f"{small.bench.application_id}-2"}))
    with pytest.raises(Refused, match=f"output {small.output.topic} would be written by"):
        restore.plan(careless, asked(careless, source=small.bench.application_id, savepoint=savepoint))


def test_a_clone_that_exists_already_is_not_overwritten(small: Small) -> None:
    savepoint = publish(small)
    bench = replace(small.bench, config=clone_of(small))
    living = TopicPartition(f"{bench.application_id}-totals-changelog", 0)
    bench.cluster.create_topic(living.topic, partitions=1, replication_factor=1, config={})
    produce(bench, living, 2)
    try:
        with pytest.raises(TargetNotEmpty, match=rf"{living.topic} \(2 offsets\)"):
            restore.plan(bench, asked(bench, source=small.bench.application_id, savepoint=savepoint))
    finally:
        bench.cluster.delete_topics([living.topic])
