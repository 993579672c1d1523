"""What is in a savepoint of a real broker: without state, for people and for strangers to read, and what it says of the loss of the cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from confluent_kafka import Producer

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.repository.survival import lost_with_cluster
from streams_recovery.core.status.savepoint_detail import savepoint_detail
from streams_recovery.operations import restore, savepoint
from streams_recovery.operations.discovery import discover, discover_remaining
from streams_recovery.operations.status.read import detail
from tests.support.applications.restore_steps import loaded, opened, saved
from tests.support.applications.savepoint_steps import begun, publish, take
from tests.support.applications.small import Small, asked, lose, rows_of, surviving
from tests.support.applications.topic_records import delete_below, produce
from tests.support.repository.readable import code_of, row_of


def of_profile(small: Small, profile: Profile) -> Small:
    """The same application with another profile; every glob matches every topic."""
    config = small.recovery.config
    backup = config.backup.model_copy(update={"profile": profile})
    topics = replace(config.topics, include=("*",), exclude=("*.out",))
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


@pytest.mark.deep
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


def test_a_published_savepoint_has_a_detail_with_the_numbers_of_its_manifest(small: Small) -> None:
    savepoint_id = publish(small)
    recovery = small.recovery
    found = detail(recovery.repository, recovery.layout, savepoint_id)
    assert found == savepoint_detail(recovery.savepoints.read(savepoint_id))
    assert found is not None
    changelog = next(topic for topic in found.topics if topic.name == small.changelog.topic)
    assert changelog.records == sum(partition.end - partition.log_start for partition in changelog.partitions) > 0


# timestamp, key, value, headers. A producer cannot send a timestamp below 1.
SENT: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (1, b"k", b"v", []),
    (2, b"k", None, [("a", b"1"), ("a", b"1"), ("b", None), ("", b""), ("a", b"0")]),
    (1_700_000_000_000, b"", b"", [("\u00fc", b"\xff\x00")]),
    (3, b"\x00\xff", b"\x00" * 100_000, []),
    (4, b"k2", b"", []),
]


def test_what_was_sent_is_what_others_read(small: Small) -> None:
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    for timestamp, key, value, headers in SENT:
        producer.produce(small.changelog.topic, value, key, 0, timestamp=timestamp, headers=headers)  # type: ignore[arg-type]
    assert producer.flush(30) == 0
    manifest = small.recovery.savepoints.read(publish(small))
    root = Path(str(small.recovery.config.storage.path))
    files = [str(root / file.key) for tp, file in manifest.files() if tp == small.changelog]
    with duckdb.connect() as database:
        database.execute(f"SET VARIABLE files = {files}")
        found = database.execute(code_of("docs/format.md", "sql", "timestamp_type, key, value"))
        names = [column[0] for column in found.description or []]
        with_duckdb = [row_of(dict(zip(names, row, strict=True))) for row in found.fetchall()]
    with_pandas = [row_of({**row, "headers": row["headers"]}) for row in pd.concat(map(pd.read_parquet, files)).to_dict("records")]
    expected = [(4 + number, stamp, 0, key, value, headers or None) for number, (stamp, key, value, headers) in enumerate(SENT)]
    assert with_duckdb[4:] == expected
    assert with_pandas[4:] == expected


@pytest.mark.deep
def test_a_savepoint_that_says_it_survives_is_restored_when_every_topic_is_gone(small: Small) -> None:
    kept = surviving(small)
    summary = take(kept)
    assert (summary.survives_cluster_loss, summary.warnings) == (True, ())
    lose(kept)
    assert restore.plan(kept.recovery, asked(kept.recovery)).observed.records_to_catch_up == 1
    ticket = opened(kept.recovery, asked(kept.recovery))
    saved(kept.recovery, ticket)
    assert loaded(kept.recovery, ticket) == 5 + 4 + 3
    restore.abandon(kept.recovery, ticket)


def test_one_that_says_it_does_not_is_refused_for_the_reason_it_gave(small: Small) -> None:
    summary = take(small)
    assert not summary.survives_cluster_loss
    [reason] = lost_with_cluster(small.recovery.savepoints.read(summary.savepoint_id))
    assert reason == f"the records of {small.input.topic} are not archived"
    lose(small)
    with pytest.raises(Refused, match="is gone") as caught:
        restore.plan(small.recovery, asked(small.recovery))
    assert [small.input.topic in problem for problem in caught.value.facts["problems"]] == [True]


@pytest.mark.deep
def test_one_savepoint_without_inputs_in_between_does_not_begin_their_archive_anew(small: Small) -> None:
    archiving = surviving(small)
    recovery, tp = archiving.recovery, small.input
    first = take(archiving)
    second = take(small)
    between = recovery.savepoints.read(second.savepoint_id).topic(tp.topic)
    assert between is not None
    assert between.archived is False
    produce(recovery, tp, 2)
    delete_below(recovery, tp, 3)
    third = take(archiving)
    manifest = recovery.savepoints.read(third.savepoint_id)
    assert not any("begins anew" in warning for warning in third.warnings)
    assert manifest.parent_id == first.savepoint_id
    assert [row["offset"] for row in rows_of(recovery, manifest, tp)] == list(range(7)), "also what retention has deleted since"
