"""Cuts and plans on a real broker, of an application that is a few topics and a consumer group: what must stop them, and what must not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.core.errors import NotExact, OffsetsUnstable, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, TopicPartition
from streams_recovery.core.offsets.strategies import Earliest
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.operations import restore
from streams_recovery.operations import savepoint as savepoints
from streams_recovery.operations.unfinished import dismiss
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications.savepoint_steps import begun, cut, publish, take
from tests.support.applications.small import Small, asked, small_application, with_policy
from tests.support.applications.topic_records import commit_with_epoch, produce


@contextmanager
def hanging_producer(small: Small) -> Iterator[Producer]:
    """A producer in the middle of a transaction that nobody ends."""
    settings = {
        "bootstrap.servers": small.recovery.connection.bootstrap_servers,
        "transactional.id": f"hangs-{small.input.topic}",
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer
    producer.abort_transaction(30)


@pytest.fixture
def hanging(small: Small) -> Iterator[Producer]:
    with hanging_producer(small) as producer:
        yield producer


@pytest.mark.way("savepoint")
@pytest.mark.fault("F49")
def test_a_stopped_application_s_cut_is_exact_and_has_its_unread_tail(small: Small) -> None:
    draft = cut(small.recovery)
    assert draft.consistency is Consistency.EXACT
    ends = {cut.tp: cut.end for topic in draft.topics for cut in topic.partitions}
    assert ends == {small.input: 5, small.output: 4, small.changelog: 4, small.tail: 4}
    (tail,) = draft.tails
    assert (tail.tp, tail.copied.start, tail.copied.end) == (small.tail, 1, 4)
    assert small.recovery.lock.holder() is None


@pytest.mark.deep
@pytest.mark.fault("F26")
@pytest.mark.parametrize("where", ["changelog", "output", "tail"])
def test_an_open_transaction_on_the_application_s_own_topics_is_named_and_nothing_stays_held(
    small: Small, hanging: Producer, where: str
) -> None:
    tp: TopicPartition = getattr(small, where)
    hanging.produce(tp.topic, b"x", b"k", tp.partition)
    assert hanging.flush(30) == 0
    named = rf"{tp}: producer \d+ \(hangs-{small.input.topic}\), open for \d+ s, from offset 4"
    with pytest.raises(OffsetsUnstable, match=named) as caught:
        cut(small.recovery)
    assert str(tp) in str(caught.value)
    assert "transaction.timeout.ms" in str(caught.value), "its coordinator ends it"
    assert small.recovery.lock.holder() is None
    config = small.recovery.cluster.describe_topics([small.changelog.topic])[small.changelog.topic].config
    assert config == {"cleanup.policy": "compact"}, "the compaction guard went back"
    assert small.recovery.savepoints.ids() == []


@pytest.mark.fault("F26")
def test_another_team_s_hanging_transaction_on_an_input_does_not_block(small: Small, hanging: Producer) -> None:
    hanging.produce(small.input.topic, b"x", b"k", 0)
    assert hanging.flush(30) == 0
    draft = cut(small.recovery)
    assert draft.consistency is Consistency.EXACT
    (image,) = next(topic for topic in draft.topics if topic.name == small.input.topic).partitions
    assert image.end == 5, "an input ends where its last stable offset is"


@pytest.mark.deep
@pytest.mark.fault("F26")
def test_a_topic_that_the_application_writes_and_reads_is_waited_for(bootstrap: str, tmp_path: Path) -> None:
    """What a transaction in the cut wrote there must be below its end, decided: whoever reads it goes on from the committed offset."""
    name = f"loop{uuid.uuid4().hex[:8]}"
    with (
        small_application(bootstrap, tmp_path, name=name, topics={"outputs": [f"{name}.out", f"{name}.in"]}) as small,
        hanging_producer(small) as producer,
    ):
        producer.produce(small.input.topic, b"x", b"k", 0)
        assert producer.flush(30) == 0
        with pytest.raises(OffsetsUnstable, match=rf"{small.input}: producer \d+ \(hangs-{small.input.topic}\)"):
            cut(small.recovery)


def test_a_long_range_becomes_several_segments_that_continue_each_other(small: Small) -> None:
    produce(small.recovery, small.changelog, 2_500)
    image = small.recovery.savepoints.read(publish(small)).topic(small.changelog.topic)
    assert image is not None
    (partition,) = image.partitions
    assert [(piece.start, piece.end) for piece in partition.ranges] == [(0, 1_000), (1_000, 2_000), (2_000, 2_504)]
    assert [file.rows for file in partition.files()] == [1_000, 1_000, 504]


@pytest.mark.deep
def test_a_savepoint_without_news_needs_no_job_and_shares_everything(small: Small) -> None:
    first = small.recovery.savepoints.read(publish(small))
    ticket = begun(small.recovery)
    cut = savepoints.capture(small.recovery, ticket, savepoints.quiesce(small.recovery, ticket))
    plan = savepoints.plan_copy(small.recovery, ticket, cut.draft)
    assert (plan.spec, plan.ranges) == (None, 0)
    savepoints.publish(small.recovery, ticket, savepoints.gather(small.recovery, ticket, plan.plan, None).copied)
    savepoints.finish(small.recovery, ticket)
    second = small.recovery.savepoints.read(ticket.savepoint_id)
    assert second.parent_id == first.savepoint_id
    changelog = small.changelog.topic
    assert [file for tp, file in second.files() if tp.topic == changelog] == [file for tp, file in first.files() if tp.topic == changelog]


@pytest.mark.fault("F15")
def test_state_that_a_restore_left_half_way_is_never_saved(small: Small) -> None:
    recovery = small.recovery
    restore_id = "20261121T020000Z-00000000aa"
    log = AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry)
    for phase in (Phase.OPENED, Phase.STOPPED):
        log.append(JournalEntry(phase=phase, at=1, created=()))
    assert cut(recovery).consistency is Consistency.EXACT, "nothing was destroyed yet"
    log.append(JournalEntry(phase=Phase.CREATED, at=1, created=()))
    with pytest.raises(Refused) as caught:
        cut(recovery)
    assert caught.value.facts == {"restore": restore_id}
    assert caught.value.commands == (f"streams-recovery resume small {restore_id}", f"streams-recovery dismiss small {restore_id}")
    assert recovery.lock.holder() is None
    dismiss(recovery, restore_id)
    assert cut(recovery).consistency is Consistency.EXACT


@pytest.mark.deep
@pytest.mark.parametrize("damage", ["a segment is missing", "the manifest is torn"])
def test_the_savepoint_after_a_damaged_one_is_a_full_one(small: Small, damage: str) -> None:
    recovery = small.recovery
    first = recovery.savepoints.read(publish(small))
    root = Path(str(recovery.config.storage.path))
    if damage == "a segment is missing":
        (root / next(file.key for _, file in first.files())).unlink()
    else:
        (root / recovery.layout.manifest(first.savepoint_id)).write_bytes(b"torn")
    second = recovery.savepoints.read(publish(small))
    assert second.parent_id is None
    assert second.records == 7
    assert {file.key for _, file in second.files()} & {file.key for _, file in first.files()} == set()


def test_a_restore_refuses_topics_of_another_version_of_the_application(small: Small) -> None:
    savepoint = publish(small)
    recovery = small.recovery
    request = asked(recovery, savepoint=savepoint)
    recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    newer = f"{recovery.application_id}-newer-changelog"
    recovery.cluster.create_topic(newer, partitions=1, replication_factor=1, config={})
    try:
        with pytest.raises(TargetNotEmpty, match="does not know") as caught:
            restore.plan(recovery, request)
        assert caught.value.facts == {"topics": [newer]}
        assert "`delete`" in caught.value.next_step
    finally:
        recovery.cluster.delete_topics([newer])
    planned = restore.plan(recovery, request)
    assert {topic.name for topic in planned.create} == {small.changelog.topic, small.tail.topic}
    offsets = {item.tp: (item.wanted.offset, item.wanted.metadata) for item in planned.offsets}
    assert offsets == {small.input: (4, "AgAA"), small.tail: (0, "")}


@pytest.mark.fault("F36")
def test_an_offset_behind_the_end_of_its_log_is_never_exact_and_no_restore_goes_on_there_once_the_log_has_grown(small: Small) -> None:
    """As after the log was cut back from 9 to 5 while the application was down: the records that come at 5 to 8 then are not those that it has read."""
    recovery = small.recovery
    # Of a leader epoch that the log has not come to: it is not the one that was read, however long it is.
    commit_with_epoch(recovery, small.input, 4, 7)
    with pytest.raises(NotExact) as caught:
        cut(recovery)
    assert caught.value.facts["past_end"] == [str(small.input)]
    recovery.groups.set_offsets(recovery.application_id, {small.input: CommittedOffset(offset=9, metadata="", leader_epoch=None)})
    with pytest.raises(NotExact, match=rf"the committed offset of {small.input} lies behind the end of its log") as caught:
        cut(recovery)
    assert "once the application has read on there" in caught.value.next_step
    lenient = with_policy(recovery, require="ahead_allowed")
    manifest = recovery.savepoints.read(take(small, recovery=lenient).savepoint_id)
    assert (manifest.consistency, manifest.proof.past_end) == (Consistency.AHEAD, (small.input,))
    produce(recovery, small.input, 10)
    recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    with pytest.raises(Refused, match=rf"{small.input}: at the savepoint its log had lost records below the committed offset 9"):
        restore.plan(recovery, asked(recovery, savepoint=manifest.savepoint_id, allow_ahead=True))
    planned = restore.plan(recovery, asked(recovery, savepoint=manifest.savepoint_id, allow_ahead=True, offsets=Earliest(text="earliest")))
    assert {item.tp: item.wanted.offset for item in planned.offsets}[small.input] == 0
