"""Savepoints of topics that are deleted, created again, given partitions, purged or truncated meanwhile, on a real broker."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.processes import Processes
from streams_recovery.core.errors import Damaged, NotExact, NotFound, OffsetsGone, Refused, StateDamaged, TransientError
from streams_recovery.core.jobs.volume import UNKNOWN_BYTES, JobVolume
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.repository.manifest import Gap, partition_images
from streams_recovery.core.savepoint.damage import ChangedState, DamageKind
from streams_recovery.operations import restore, savepoint
from tests.support.applications.savepoint_steps import begun, copy, cut, published, take
from tests.support.applications.small import Small, asked, lose_state, reopened, rows_of, small_application, untouched
from tests.support.applications.topic_records import add_partitions, commit, delete_below, produce, recreate, without_the_last_batch
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka


@pytest.fixture
def archiving(bootstrap: str, tmp_path: Path) -> Iterator[Small]:
    """The application with its input in the savepoint too."""
    with small_application(bootstrap, tmp_path, topics={"include": ["*.in"]}) as found:
        yield found


def expected(small: Small) -> JobVolume | None:
    """The volume of the next copy, as it can be said before it is begun."""
    return savepoint.expected_copy(small.recovery)


@pytest.mark.deep
def test_a_copy_is_expected_before_the_first_savepoint_and_of_what_a_log_has_more_since(small: Small) -> None:
    there = small.recovery.cluster.high_watermarks([small.changelog])[small.changelog]
    assert expected(small) == JobVolume(ranges=1, records=there, payload_bytes=there * UNKNOWN_BYTES)
    published(small)
    assert expected(small) is None
    produce(small.recovery, small.changelog, 3)
    found = expected(small)
    assert (found.ranges, found.records, 0 < found.payload_bytes < 3 * 100) == (1, 3, True), "as large as those before"
    published(small)
    small.recovery.cluster.delete_topics([small.changelog.topic])
    assert expected(small) is None, "the savepoint itself says what is wrong"


@pytest.mark.fault("F21")
@pytest.mark.parametrize(
    ("which", "moment"),
    [("input", "after_copy"), ("output", "after_cut"), ("changelog", "after_cut"), ("changelog", "after_copy"), ("tail", "after_cut")],
)
def test_a_topic_that_was_created_again_after_the_cut_publishes_nothing(small: Small, which: str, moment: str) -> None:
    tp: TopicPartition = getattr(small, which)
    ids: list[str] = []

    def again() -> None:
        ids.extend(recreate(small.recovery, tp.topic))
        produce(small.recovery, tp, 9)  # as long as the old one and longer: its offsets exist

    with pytest.raises(Damaged) as caught:
        take(small, **{moment: again})
    assert caught.value.facts["ids"] == {tp.topic: (ids[0], ids[1])}
    assert untouched(small)


@pytest.mark.fault("F21")
def test_a_topic_that_was_deleted_after_the_cut_publishes_nothing(small: Small) -> None:
    before = small.recovery.cluster.describe_topics([small.output.topic])[small.output.topic]
    with pytest.raises(Damaged) as caught:
        take(small, after_copy=lambda: small.recovery.cluster.delete_topics([small.output.topic]))
    assert caught.value.facts["ids"] == {small.output.topic: (before.topic_id, None)}
    assert untouched(small)


@pytest.mark.fault("F22")
def test_partitions_that_are_added_after_the_cut_are_told_and_are_in_the_next_savepoint(archiving: Small) -> None:
    small, topic = archiving, archiving.input.topic
    first = take(small, after_cut=lambda: add_partitions(small.recovery, topic, 2))
    [warning] = [warning for warning in first.warnings if "partitions" in warning]
    assert warning.startswith(topic)
    assert "it has 2, 1" in warning
    added = TopicPartition(topic, 1)
    produce(small.recovery, added, 3)
    second = take(small)
    (told,) = second.warnings
    assert f"{topic} (1 partitions, now 2). No savepoint up to {first.savepoint_id} can be restored beside them" in told
    manifest = small.recovery.savepoints.read(second.savepoint_id)
    assert [row["value"] for row in rows_of(small.recovery, manifest, added)] == [b"v0", b"v1", b"v2"]
    assert manifest.parent_id == first.savepoint_id
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    with pytest.raises(Refused, match="has 2 partitions") as caught:
        restore.plan(small.recovery, asked(small.recovery, savepoint=first.savepoint_id))
    assert caught.value.facts["topics"] == [topic]
    # With an internal topic of another partition count Kafka Streams would not start: it is of another version, and has to be given up by name.
    small.recovery.cluster.create_topic(small.changelog.topic, partitions=3, replication_factor=1, config={})
    with pytest.raises(Refused, match=f"{small.changelog.topic} has 3"):
        restore.plan(small.recovery, asked(small.recovery, savepoint=second.savepoint_id))
    given_up = asked(small.recovery, savepoint=second.savepoint_id, replace=True)
    planned = {step.name: step for step in restore.plan(small.recovery, given_up).create}
    assert len(planned[small.changelog.topic].partitions) == 1
    assert planned[small.changelog.topic].replaces is not None


MEDDLING_STATUS = """
import json, pathlib, sys
from confluent_kafka.admin import AdminClient, NewPartitions
bootstrap, topic, calls = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
if len(calls.read_text()) == 3:  # begin asks once and quiesce once: now the cut is being read
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
print(json.dumps([{"name": "one", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "pid 1"}]))
"""


@pytest.mark.fault("F22")
def test_partitions_that_are_added_while_the_cut_is_read_spoil_it(bootstrap: str, tmp_path: Path) -> None:
    name = f"spoiled{uuid.uuid4().hex[:8]}"
    (tmp_path / "status.py").write_text(MEDDLING_STATUS)
    status = [sys.executable, str(tmp_path / "status.py"), bootstrap, f"{name}.in", str(tmp_path / "calls")]
    with small_application(bootstrap, tmp_path, name=name, programs={"status": status}) as small:
        with pytest.raises(TransientError) as caught:
            take(small)
        assert caught.value.facts["partitions"] == {f"{name}.in": (1, 2)}
        assert caught.value.next_step == "run the savepoint again"
        assert untouched(small)


@pytest.mark.fault("F23")
def test_state_that_retention_takes_away_before_it_is_copied_fails_the_savepoint(small: Small) -> None:
    alter(small.recovery.cluster, {small.changelog.topic: {"cleanup.policy": "compact,delete"}})

    def deleted() -> None:
        delete_below(small.recovery, small.changelog, 2)
        alter(small.recovery.cluster, {small.changelog.topic: {"cleanup.policy": "compact"}})

    with pytest.raises(OffsetsGone, match=rf"offsets 0\.\.1 of {small.changelog} are gone"):
        take(small, after_cut=deleted)
    assert untouched(small)


@pytest.mark.fault("F87")
def test_a_changelog_of_windows_whose_head_expires_meanwhile_begins_where_its_log_does(small: Small) -> None:
    recovery, tp = small.recovery, small.changelog
    alter(recovery.cluster, {tp.topic: {"cleanup.policy": "compact,delete"}})
    summary = take(small, after_cut=lambda: delete_below(recovery, tp, 2))
    manifest = recovery.savepoints.read(summary.savepoint_id)
    assert manifest.consistency is Consistency.EXACT
    late = partition_images(manifest.topics)[tp]
    assert (late.log_start, late.archived_from, late.gaps) == (2, 2, ())
    assert summary.warnings == (f"{tp} begins at 2: its retention deleted what was before, while it was copied",)
    again = published(small)
    assert partition_images(again.topics)[tp].ranges == late.ranges, "the next one goes on behind it"
    assert again.parent_id == manifest.savepoint_id
    lose_state(small)
    assert restore.plan(recovery, asked(recovery)).rows == manifest.records


def test_unread_records_that_are_deleted_give_no_cut(small: Small) -> None:
    delete_below(small.recovery, small.tail, 3)  # committed is 1
    with pytest.raises(NotExact, match=f"unread records of {small.tail} were deleted"):
        cut(small.recovery)
    assert untouched(small)


@pytest.mark.deep
@pytest.mark.fault("F23")
def test_an_input_s_lost_records_are_published_as_a_gap_and_told_once(archiving: Small) -> None:
    small, tp = archiving, archiving.input
    first = take(small, after_cut=lambda: delete_below(small.recovery, tp, 3))
    (warning,) = first.warnings
    assert warning.startswith(f"offsets 0..2 of {tp}")
    assert "while it was copied" in warning
    manifest = small.recovery.savepoints.read(first.savepoint_id)
    assert [(row["offset"], row["value"]) for row in rows_of(small.recovery, manifest, tp)] == [(3, b"v3"), (4, b"v4")]
    assert holes(manifest, tp) == [(0, 3)]

    assert take(small).warnings == (), "a hole is news once"
    produce(small.recovery, tp, 4)
    commit(small.recovery, {tp: 9})
    delete_below(small.recovery, tp, 7)  # two records between the savepoints were never seen by one
    third = take(small)
    (warning,) = third.warnings
    assert warning.startswith(f"offsets 5..6 of {tp}")
    assert "before it was copied" in warning
    manifest = small.recovery.savepoints.read(third.savepoint_id)
    assert [row["offset"] for row in rows_of(small.recovery, manifest, tp)] == [3, 4, 7, 8]
    assert holes(manifest, tp) == [(0, 3), (5, 7)]

    produce(small.recovery, tp, 2)
    commit(small.recovery, {tp: 11})
    last = take(small, after_cut=lambda: delete_below(small.recovery, tp, 11))
    manifest = small.recovery.savepoints.read(last.savepoint_id)
    assert holes(manifest, tp) == [(0, 3), (5, 7), (9, 11)], "nothing of the new range was left"
    assert [row["offset"] for row in rows_of(small.recovery, manifest, tp)] == [3, 4, 7, 8]


def holes(manifest: object, tp: TopicPartition) -> list[tuple[int, int]]:
    image = manifest.topic(tp.topic)  # type: ignore[attr-defined]
    return [(gap.start, gap.end) for gap in image.partitions[tp.partition].gaps]


@pytest.mark.deep
def test_an_input_that_is_gone_altogether_is_a_gap_and_no_reason_to_have_no_savepoint(archiving: Small) -> None:
    small = archiving
    manifest = published(small, after_cut=lambda: delete_below(small.recovery, small.input, 5))
    assert holes(manifest, small.input) == [(0, 5)]
    again = take(small)  # with input that the application had not read, offset 4
    (warning,) = again.warnings
    assert f"offsets 4..4 of {small.input} were" in warning
    assert holes(small.recovery.savepoints.read(again.savepoint_id), small.input) == [(0, 5)]
    assert again.parent_id == manifest.savepoint_id
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    with pytest.raises(Refused) as caught:
        restore.plan(small.recovery, asked(small.recovery, savepoint=again.savepoint_id))
    assert (caught.value.facts["offsets"], caught.value.facts["logs"]) == ({str(small.input): 4}, {str(small.input): (5, 5)})


@pytest.mark.fault("F23")
def test_state_with_a_hole_is_never_restored(small: Small) -> None:
    whole = published(small)
    state = whole.topic(small.changelog.topic)
    assert state is not None
    partition = replace(state.partitions[0], ranges=(), gaps=(Gap(start=0, end=4, reason="tried"),))
    damaged = replace(
        whole,
        savepoint_id="20261121T012345Z-00000000bb",
        topics=tuple(replace(topic, partitions=(partition,)) if topic is state else topic for topic in whole.topics),
    )
    small.recovery.savepoints.publish(damaged)
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    with pytest.raises(Refused) as caught:
        restore.plan(small.recovery, asked(small.recovery, savepoint=damaged.savepoint_id))
    assert caught.value.facts["holes"] == [(str(small.changelog), 0, 4)]
    assert restore.plan(small.recovery, asked(small.recovery, savepoint=whole.savepoint_id)).rows == 7


@pytest.mark.deep
@pytest.mark.remedy("topic-cut")
def test_a_topic_that_was_created_again_between_savepoints_shares_nothing(archiving: Small) -> None:
    small = archiving
    first = published(small)
    for tp in (small.changelog, small.input):
        recreate(small.recovery, tp.topic)
        produce(small.recovery, tp, 12)  # grown past the old end: only the id tells
    commit(small.recovery, {small.input: 12})
    second = published(small, changed_state=ChangedState.INTENDED)
    for tp in (small.changelog, small.input):
        image = second.topic(tp.topic)
        assert image is not None
        assert (image.rows, image.full_since) == (12, second.captured_at)
        assert not {file.key for at, file in first.files() if at == tp} & {file.key for at, file in second.files() if at == tp}


@pytest.mark.fault("F36")
def test_where_a_leader_epoch_ends(small: Small) -> None:
    epochs = small.recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].leader_epochs
    assert epochs[0] is not None
    assert small.recovery.cluster.epoch_ends({small.changelog: epochs[0]}) == {small.changelog: 4}
    assert small.recovery.cluster.epoch_ends({small.changelog: epochs[0] + 1}) == {small.changelog: None}
    assert small.recovery.cluster.epoch_ends({}) == {}
    with pytest.raises(NotFound):
        small.recovery.cluster.epoch_ends({TopicPartition("nobody-s", 0): 0})


@pytest.mark.fault("F36")
@pytest.mark.remedy("topic-cut")
@pytest.mark.deep
def test_a_log_that_lost_its_end_and_grew_past_it_again_is_damaged_state_and_shares_nothing(
    own_broker: Callable[[], str], tmp_path: Path
) -> None:
    with small_application(own_broker(), tmp_path, tidy=False) as small:
        for _ in range(3):
            produce(small.recovery, small.changelog, 2)  # a batch each
        first = published(small)
        log = next((tmp_path / "broker" / "logs" / str(small.changelog)).glob("*.log"))

        def lose_the_end() -> None:
            # What an election of a replica that was behind does: records that were acknowledged are gone.
            Processes(tmp_path / "processes").stop_all()
            log.write_bytes(without_the_last_batch(log.read_bytes()))
            own_broker()

        lose_the_end()
        with reopened(small) as later:
            short = later.recovery.cluster.high_watermarks([small.changelog])[small.changelog]
            assert 0 < short < 10
            produce(later.recovery, small.changelog, 20)
            with pytest.raises(StateDamaged, match=f"end at {short}") as caught:
                published(later)
            [damage] = caught.value.facts["damage"]
            assert (damage.kind, damage.topic, damage.partitions) == (DamageKind.TRUNCATED, small.changelog.topic, (0,))
            second = published(later, changed_state=ChangedState.INTENDED)
            image, before = second.topic(small.changelog.topic), first.topic(small.changelog.topic)
            assert image is not None
            assert before is not None
            assert image.topic_id == before.topic_id
            assert image.partitions[0].end > before.partitions[0].end
            assert (image.rows, image.full_since) == (short + 20, second.captured_at)
            ticket = begun(later.recovery)
            cut = savepoint.capture(later.recovery, ticket, savepoint.quiesce(later.recovery, ticket))
            done = copy(later.recovery, ticket, cut)

        lose_the_end()
        with reopened(small) as last:
            with pytest.raises(Damaged) as damaged:
                savepoint.gather(last.recovery, ticket, *done)
            end, at_cut = damaged.value.facts["ends"][str(small.changelog)]
            assert end < at_cut == short + 20
            savepoint.finish(last.recovery, ticket)
            assert last.recovery.savepoints.ids() == [first.savepoint_id, second.savepoint_id]
