"""What producers write into inputs while a restore or a rebuild makes them is never deleted, on a real broker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import PlanChanged, PrefixDiffers, TargetNotEmpty
from streams_recovery.core.jobs.spec import JobFailure, failure_key
from streams_recovery.core.repository.journal import CreatedTopic, Phase
from streams_recovery.operations import restore
from streams_recovery.operations.restore.open import note
from tests.support.applications.rebuilds import archiving, rebuild
from tests.support.applications.restore_steps import load, loaded, opened, saved, written
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, lose, surviving
from tests.support.applications.topic_records import produce
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import read, write

LATE = [(1_700_000_000_000 + number, b"late", b"%d" % number, None) for number in range(3)]
# The records are of a time that retention would delete at once.
ENDLESS = {"retention.ms": "-1"}
NOT_OURS = "hold records that are not of this restore"


def came(small: Small, rows: Sequence[tuple[int, bytes | None, bytes | None, object]] = LATE) -> None:
    """Producers that nobody has stopped."""
    write(small.recovery.connection, small.input, list(rows))


def here(small: Small) -> list[tuple[int, bytes | None, bytes | None]]:
    end = small.recovery.cluster.high_watermarks([small.input])[small.input]
    return [row[:3] for row in rows_in(read(small.recovery.connection, small.input, 0, end))]


def topic_id(small: Small) -> str:
    return small.recovery.cluster.describe_topics([small.input.topic])[small.input.topic].topic_id


def lost(small: Small) -> tuple[Small, restore.RestoreTicket]:
    """A restore of an application that the cluster has lost, up to where its topics would be made."""
    kept = surviving(small)
    publish(kept)
    lose(kept)
    ticket = opened(kept.recovery, asked(kept.recovery))
    saved(kept.recovery, ticket)
    return kept, ticket


@pytest.mark.deep
@pytest.mark.fault("F20")
def test_an_input_that_was_made_is_not_made_again_once_producers_have_written_to_it(small: Small) -> None:
    small, ticket = lost(small)
    restore.prepare(small.recovery, ticket)
    came(small)
    job = restore.plan_load(small.recovery, ticket)
    with pytest.raises(PrefixDiffers) as differs:
        load(small.recovery, job)
    small.recovery.repository.create(failure_key(str(job.result_key)), codec.dumps(JobFailure.of(differs.value)))
    with pytest.raises(TargetNotEmpty, match=f"{NOT_OURS}: {small.input.topic}"):
        restore.plan_load(small.recovery, ticket)
    came(small)
    with pytest.raises(TargetNotEmpty, match=f"{NOT_OURS}: {small.input.topic}"):
        restore.plan_load(small.recovery, ticket)
    assert here(small) == [row[:3] for row in LATE] * 2
    small.recovery.cluster.delete_topics([small.input.topic])
    assert written(small.recovery, ticket) == 5 + 4 + 3, "once somebody has deleted it"
    restore.abandon(small.recovery, ticket)


@pytest.mark.deep
@pytest.mark.fault("F3")
def test_topics_are_not_made_a_second_time_over_what_came_into_an_input(small: Small) -> None:
    small, ticket = lost(small)
    note(small.recovery, ticket, Phase.DESTROYING)
    made = small.recovery.cluster.create_topic(small.input.topic, partitions=1, replication_factor=1, config=ENDLESS)
    note(small.recovery, ticket, Phase.DESTROYING, created=(CreatedTopic(topic=small.input.topic, topic_id=made.topic_id),))
    came(small)
    with pytest.raises(TargetNotEmpty, match="did not load") as caught:
        restore.prepare(small.recovery, ticket)
    assert caught.value.facts["topics"].keys() == {small.input.topic}
    assert here(small) == [row[:3] for row in LATE]
    small.recovery.cluster.delete_topics([small.input.topic])
    assert loaded(small.recovery, ticket) == 5 + 4 + 3, "once somebody has deleted it"
    # Repeated, it leaves what is loaded where it is, and what came behind it.
    before = topic_id(small)
    came(small)
    assert small.input.topic not in restore.prepare(small.recovery, ticket).created
    with pytest.raises(TargetNotEmpty, match=f"{NOT_OURS}: {small.input.topic}"):
        restore.plan_load(small.recovery, ticket)
    assert (topic_id(small), here(small)[5:]) == (before, [row[:3] for row in LATE])
    restore.abandon(small.recovery, ticket)


@pytest.mark.deep
def test_an_input_that_was_empty_when_it_was_shown_is_not_deleted_with_what_came_since(small: Small) -> None:
    small = archiving(small)
    publish(small)
    lose(small)
    small.recovery.cluster.create_topic(small.input.topic, partitions=1, replication_factor=1, config=ENDLESS)
    ticket = opened(small.recovery, rebuild(small.recovery, inputs_from="latest"))
    saved(small.recovery, ticket)
    came(small)
    with pytest.raises(PlanChanged, match="hold records now") as caught:
        restore.prepare(small.recovery, ticket)
    assert caught.value.facts == {"topics": [small.input.topic]}
    assert here(small) == [row[:3] for row in LATE]
    restore.abandon(small.recovery, ticket)


@pytest.mark.deep
@pytest.mark.fault("F3")
def test_an_output_that_was_made_and_not_noted_does_not_stop_a_resumed_restore(small: Small) -> None:
    publish(small)
    small.recovery.cluster.delete_topics([small.output.topic, small.changelog.topic, small.tail.topic])
    ticket = opened(small.recovery, asked(small.recovery))
    saved(small.recovery, ticket)
    note(small.recovery, ticket, Phase.DESTROYING)
    small.recovery.cluster.create_topic(small.output.topic, partitions=1, replication_factor=1, config={})
    assert small.output.topic in restore.prepare(small.recovery, ticket).created
    produce(small.recovery, small.output, 1)
    restore.abandon(small.recovery, ticket)
