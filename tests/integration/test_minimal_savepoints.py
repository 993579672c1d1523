"""Minimal savepoints of an application on a real broker: what is in them, what is not, and what the next full one does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.operations import restore, savepoint
from streams_recovery.operations.discovery import survey, survey_remains
from tests.integration.small import Small, asked, begun, produce
from tests.integration.test_capture import publish


def of_profile(small: Small, profile: Profile) -> Small:
    """The same application with another profile; every glob matches every topic."""
    config = small.bench.config
    backup = config.backup.model_copy(update={"profile": profile})
    topics = config.topics.model_copy(update={"include": ("*",), "exclude": ("*.out",)})
    return replace(small, bench=replace(small.bench, config=config.model_copy(update={"backup": backup, "topics": topics})))


def images(small: Small, savepoint_id: str) -> dict[str, TopicImage]:
    return {topic.name: topic for topic in small.bench.savepoints.read(savepoint_id).topics}


def test_a_minimal_savepoint_has_offsets_and_settings_and_no_record_of_an_internal_topic(small: Small) -> None:
    minimal = of_profile(small, Profile.MINIMAL)
    bench = minimal.bench
    ticket = begun(bench)
    assert bench.hold_log.last() is None, "nothing that is compacted will be read, so nothing is guarded"
    savepoint.capture(bench, ticket, savepoint.quiesce(bench, ticket))
    savepoint.finish(bench, ticket)
    found = bench.savepoints.read(publish(minimal))
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
        restore.plan(bench, asked(bench))


def test_without_archived_topics_a_minimal_savepoint_needs_no_job(small: Small) -> None:
    config = small.bench.config.model_copy(update={"backup": small.bench.config.backup.model_copy(update={"profile": Profile.MINIMAL})})
    bench = replace(small.bench, config=config)
    ticket = begun(bench)
    cut = savepoint.capture(bench, ticket, savepoint.quiesce(bench, ticket))
    assert (cut.consistency, cut.tail_records) == (Consistency.EXACT, 0)
    plan = savepoint.plan_copy(bench, ticket, cut.draft)
    assert (plan.spec, plan.ranges) == (None, 0)
    summary = savepoint.publish(bench, ticket, savepoint.gather(bench, ticket, plan.plan, None).copied)
    savepoint.finish(bench, ticket)
    assert (summary.profile, summary.files, summary.records) == (Profile.MINIMAL, 0, 0)
    assert list(bench.repository.keys(bench.layout.segments)) == []


def test_from_full_to_minimal_and_back_every_record_of_state_is_copied_again(small: Small) -> None:
    full, minimal = of_profile(small, Profile.FULL), of_profile(small, Profile.MINIMAL)
    first = images(full, publish(full))
    produce(small.bench, small.changelog, 2)
    produce(small.bench, small.input, 1)
    second_id = publish(minimal)
    second = small.bench.savepoints.read(second_id)
    assert second.parent_id is not None, "inputs are shared as before"
    produce(small.bench, small.changelog, 1)
    third_id = publish(full)
    manifest, third = small.bench.savepoints.read(third_id), images(full, third_id)
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
    planned = restore.plan(small.bench, asked(small.bench, replace=True))
    assert planned.savepoint_id == third_id


def test_an_application_without_state_can_be_saved_minimally_only(small: Small) -> None:
    small.bench.cluster.delete_topics([small.changelog.topic])
    with pytest.raises(Refused, match=r"has no changelog topic.*set backup\.profile to minimal"):
        publish(of_profile(small, Profile.FULL))
    minimal = of_profile(small, Profile.MINIMAL)
    found = minimal.bench.savepoints.read(publish(minimal))
    assert found.profile is Profile.MINIMAL
    assert found.consistency is Consistency.EXACT


def test_what_a_restore_saves_before_it_replaces_it_is_whole_whatever_the_profile(small: Small) -> None:
    minimal = of_profile(small, Profile.MINIMAL)
    assert survey(minimal.bench).inventory.left_out == {small.changelog.topic, small.tail.topic}
    found, missing = survey_remains(minimal.bench, ())
    assert found.inventory.left_out == frozenset()
    assert found.inventory.tails == (small.tail.topic,)
    assert missing == ()
