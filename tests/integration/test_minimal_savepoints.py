"""Minimal savepoints of an application on a real broker: what is in them, what is not, and what the next full one does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.operations import restore, savepoint
from streams_recovery.operations.discovery import discover, discover_remaining
from tests.support.applications.savepoint_steps import begun, publish
from tests.support.applications.small import Small, asked
from tests.support.applications.topic_records import produce


def of_profile(small: Small, profile: Profile) -> Small:
    """The same application with another profile; every glob matches every topic."""
    config = small.recovery.config
    backup = config.backup.model_copy(update={"profile": profile})
    topics = config.topics.model_copy(update={"include": ("*",), "exclude": ("*.out",)})
    return replace(small, recovery=replace(small.recovery, config=config.model_copy(update={"backup": backup, "topics": topics})))


def images(small: Small, savepoint_id: str) -> dict[str, TopicImage]:
    return {topic.name: topic for topic in small.recovery.savepoints.read(savepoint_id).topics}


def test_a_minimal_savepoint_has_offsets_and_settings_and_no_record_of_an_internal_topic(small: Small) -> None:
    minimal = of_profile(small, Profile.MINIMAL)
    recovery = minimal.recovery
    ticket = begun(recovery)
    assert recovery.hold_log.last() is None, "nothing that is compacted will be read, so nothing is guarded"
    savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
    savepoint.finish(recovery, ticket)
    found = recovery.savepoints.read(publish(minimal))
    assert (found.profile, found.consistency, found.records) == (Profile.MINIMAL, Consistency.EXACT, 5)
    by_name = {topic.name: topic for topic in found.topics}
    assert {name for name, topic in by_name.items() if topic.archived} == {small.input.topic}
    assert by_name[small.changelog.topic].config == {"cleanup.policy": "compact"}
    (changelog,), (tail,), (given,) = (by_name[tp.topic].partitions for tp in (small.changelog, small.tail, small.input))
    assert (changelog.end, changelog.ranges, tail.ranges) == (4, (), ())
    assert tail.committed is not None
    assert given.committed is not None
    assert (tail.committed.offset, given.committed.offset, given.committed.metadata) == (1, 4, "AgAA")
    with pytest.raises(Refused, match=r"is minimal.*rebuild the state from input"):
        restore.plan(recovery, asked(recovery))


def test_without_archived_topics_a_minimal_savepoint_needs_no_job(small: Small) -> None:
    config = small.recovery.config.model_copy(
        update={"backup": small.recovery.config.backup.model_copy(update={"profile": Profile.MINIMAL})}
    )
    recovery = replace(small.recovery, config=config)
    ticket = begun(recovery)
    cut = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
    assert (cut.consistency, cut.tail_records) == (Consistency.EXACT, 0)
    plan = savepoint.plan_copy(recovery, ticket, cut.draft)
    assert (plan.spec, plan.ranges) == (None, 0)
    summary = savepoint.publish(recovery, ticket, savepoint.gather(recovery, ticket, plan.plan, None).copied)
    savepoint.finish(recovery, ticket)
    assert (summary.profile, summary.files, summary.records) == (Profile.MINIMAL, 0, 0)
    assert list(recovery.repository.keys(recovery.layout.segments)) == []


def test_from_full_to_minimal_and_back_every_record_of_state_is_copied_again(small: Small) -> None:
    full, minimal = of_profile(small, Profile.FULL), of_profile(small, Profile.MINIMAL)
    first = images(full, publish(full))
    produce(small.recovery, small.changelog, 2)
    produce(small.recovery, small.input, 1)
    second_id = publish(minimal)
    second = small.recovery.savepoints.read(second_id)
    assert second.parent_id is not None, "inputs are shared as before"
    produce(small.recovery, small.changelog, 1)
    third_id = publish(full)
    manifest, third = small.recovery.savepoints.read(third_id), images(full, third_id)
    assert (manifest.profile, manifest.parent_id) == (Profile.FULL, second_id)
    changelog = small.changelog.topic
    (before,), (after,) = first[changelog].partitions, third[changelog].partitions
    assert [(piece.start, piece.end) for piece in after.ranges] == [(0, 7)]
    assert third[changelog].full_since == manifest.captured_at
    assert {file.key for file in before.files()} & {file.key for file in after.files()} == set()
    (given,) = third[small.input.topic].partitions
    assert [(piece.start, piece.end) for piece in given.ranges] == [(0, 5), (5, 6)]
    assert third[small.input.topic].full_since == first[small.input.topic].full_since
    assert third[small.tail.topic].rows == 3
    planned = restore.plan(small.recovery, asked(small.recovery, replace=True))
    assert planned.savepoint_id == third_id


def test_an_application_without_state_can_be_saved_minimally_only(small: Small) -> None:
    small.recovery.cluster.delete_topics([small.changelog.topic])
    with pytest.raises(Refused, match="no changelog topic") as caught:
        publish(of_profile(small, Profile.FULL))
    assert caught.value.facts == {"application_id": small.recovery.application_id, "taken_by": {}}
    assert "backup.profile" in caught.value.next_step
    minimal = of_profile(small, Profile.MINIMAL)
    found = minimal.recovery.savepoints.read(publish(minimal))
    assert found.profile is Profile.MINIMAL
    assert found.consistency is Consistency.EXACT


def test_what_a_restore_saves_before_it_replaces_it_is_whole_whatever_the_profile(small: Small) -> None:
    minimal = of_profile(small, Profile.MINIMAL)
    assert discover(minimal.recovery).inventory.left_out == {small.changelog.topic, small.tail.topic}
    found, missing = discover_remaining(minimal.recovery, ())
    assert found.inventory.left_out == frozenset()
    assert found.inventory.tails == (small.tail.topic,)
    assert missing == ()
