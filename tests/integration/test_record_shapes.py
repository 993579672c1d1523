"""Every shape a record can have, from a broker into Parquet and back into a broker."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer

from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import RangeToCopy
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, StoreKind, TopicPartition
from streams_recovery.core.preflight.findings import blocking
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.core.state.table import StoreKey, join_key
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.topic_settings import InForce, SettingSource
from streams_recovery.core.words import new_id
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.range_copy import copy_range
from streams_recovery.kafka.writer import PartitionWriter, Producers
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.dry_run import before_restore
from streams_recovery.segments.files import read_segment
from streams_recovery.segments.schema import RowDigest
from streams_recovery.storage.repository import Repository
from tests.support.applications.restore_steps import loaded, opened
from tests.support.applications.restore_steps import saved as save_state
from tests.support.applications.savepoint_steps import published, take
from tests.support.applications.small import Small, asked, lose_state, rows_of, small_application
from tests.support.applications.topic_records import await_markers, commit, delete_below, produce
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import connect, end_of, read, topic, write
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]

DAY = 86_400_000
NOW = int(time.time() * 1000)
# A device without a clock, no time, two hours ahead, microseconds taken for milliseconds, the last one there is, 50 days in one batch.
STAMPS = st.sampled_from([0, -1, 1, NOW, NOW + 7_200_000, NOW - 50 * DAY, NOW * 1000, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=20)
HEADERS = st.none() | st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4), BYTES), min_size=1, max_size=4
)


class Road:
    """A source that anything can be written to, a repository, and a target."""

    def __init__(self, connection: KafkaConnection, source: str, target: str, directory: Path) -> None:
        self.connection, self.source, self.target = connection, TopicPartition(source, 0), TopicPartition(target, 0)
        self.repository = Repository(StorageLocation(backend="filesystem", path=str(directory)))
        self.directory = directory
        self._producer = Producer({"bootstrap.servers": connection.bootstrap_servers, "log_level": 0})

    def send(self, rows: list[Row]) -> tuple[int, int]:
        start = end_of(self.connection, self.source)
        if any(row[0] == 0 for row in rows):
            write(self.connection, self.source, rows)
        else:
            for stamp, key, value, headers in rows:
                self._producer.produce(self.source.topic, value, key, 0, timestamp=stamp, headers=headers or [])
            assert self._producer.flush(30) == 0
        assert rows_in(read(self.connection, self.source, start, start + len(rows))) == rows
        return start, start + len(rows)

    def archive(self, start: int, end: int) -> SegmentFile:
        wanted = RangeToCopy(tp=TopicPartition(self.source.topic, 0), start=start, end=end, size_hint=1)
        done = copy_range(self.connection, self.repository, Layout("shapes"), wanted, compression_level=3, attempt=uuid.uuid4().hex)
        assert done.copied.file is not None
        assert done.copied.file.rows == end - start
        return done.copied.file

    def rows(self, segment: SegmentFile) -> list[pa.RecordBatch]:
        return list(read_segment(self.directory / segment.key, segment))

    def bring_back(self, segment: SegmentFile) -> list[Row]:
        begin = end_of(self.connection, self.target)
        batches = self.rows(segment)
        with PartitionWriter(Producers(self.connection), self.target, expected_end=begin) as writer:
            for batch in batches:
                writer.write(batch)
            written = writer.finish()
        back = read(self.connection, self.target, begin, begin + written.rows)
        digests = []
        for side in (batches, back):
            digest = RowDigest()
            for batch in side:
                digest.update(batch)
            digests.append(digest.hexdigest())
        assert digests[0] == digests[1]
        return rows_in(back)


@pytest.fixture(scope="module")
def road(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    connection = connect(bootstrap)
    with ExitStack() as stack:
        source, target = stack.enter_context(topic(connection)), stack.enter_context(topic(connection))
        yield Road(connection, source, target, tmp_path_factory.mktemp("repository"))


@pytest.mark.deep
@pytest.mark.fault("F27", "F28", "F29", "F30")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(rows=[(NOW - 50 * DAY, b"a", b"1", None), (NOW, b"a", b"2", None), (2**63 - 1, b"a", b"3", None), (1, b"a", b"4", None)])
@example(rows=[(1, None, None, None), (1, b"", None, None), (1, None, b"", None), (1, b"", b"", [("h", None), ("h", b""), ("h", b"\xff")])])
@example(rows=[(NOW, b"k", b"1", None), (0, None, None, [("h", None)]), (-(2**63), b"k", b"3", [("h", None)]), (0, b"k", None, None)])
@given(rows=st.lists(st.tuples(STAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=20))
def test_any_record_goes_into_an_archive_and_back(road: Road, rows: list[Row]) -> None:
    assert road.bring_back(road.archive(*road.send(rows))) == rows


def stamped(small: Small, tp: TopicPartition, stamp: int) -> None:
    producer = KafkaProducer(bootstrap_servers=small.recovery.connection.bootstrap_servers)
    producer.send(tp.topic, value=b"v", key=b"k", partition=0, timestamp_ms=stamp).get(30)
    producer.close()


@pytest.mark.deep
@pytest.mark.fault("F30")
@pytest.mark.parametrize("stamp", [0, -1, -5])
def test_a_savepoint_with_such_a_record_is_exact_and_restored_as_it_was(small: Small, stamp: int) -> None:
    stamped(small, small.changelog, stamp)
    summary = take(small)
    assert (summary.warnings, summary.consistency) == ((), Consistency.EXACT)
    saved = rows_of(small.recovery, small.recovery.savepoints.read(summary.savepoint_id), small.changelog)
    lose_state(small)
    ticket = opened(small.recovery, asked(small.recovery))
    save_state(small.recovery, ticket)
    loaded(small.recovery, ticket)
    back = rows_in(read(small.recovery.connection, small.changelog, 0, len(saved)))
    assert [row[0] for row in back] == [row["timestamp"] for row in saved]
    assert back[-1] == (stamp, b"k", b"v", None)


@pytest.mark.fault("F31")
def test_times_that_the_broker_set_are_kept_and_told(small: Small) -> None:
    tp = small.changelog
    alter(small.recovery.cluster, {tp.topic: {"message.timestamp.type": "LogAppendTime"}})
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    producer.produce(tp.topic, b"late", b"k", 0, timestamp=5)
    assert producer.flush(30) == 0
    began = int(time.time() * 1000)
    summary = take(small)
    (warning,) = summary.warnings
    said = f"{tp.topic} replaces the times of records (message.timestamp.type=LogAppendTime)"
    assert warning.startswith(said)
    *_, last = rows_of(small.recovery, small.recovery.savepoints.read(summary.savepoint_id), tp)
    assert last["timestamp_type"] == 1
    assert began - 600_000 < int(str(last["timestamp"])) <= began
    lose_state(small)
    planned = restore.plan(small.recovery, asked(small.recovery))
    assert [one.startswith(said) for one in planned.warnings if said in one] == [True], "once"
    (step,) = (step for step in planned.create if step.name == tp.topic)
    assert step.held_config["message.timestamp.type"] == "CreateTime", "else the broker would replace what is restored"
    assert step.final_config["message.timestamp.type"] == "LogAppendTime"


@pytest.mark.fault("F84")
def test_every_setting_of_the_owner_comes_back_and_what_does_not_stands_in_the_plan(small: Small) -> None:
    tp, own = small.changelog, {"message.timestamp.after.max.ms": "604800000", "segment.jitter.ms": "500", "file.delete.delay.ms": "90000"}
    before = small.recovery.cluster.describe_topics([tp.topic])[tp.topic].config
    alter(small.recovery.cluster, {tp.topic: {**own, "leader.replication.throttled.replicas": "0:0"}})
    saved = small.recovery.savepoints.read(take(small).savepoint_id).topic(tp.topic)
    assert saved is not None
    assert saved.in_force["message.timestamp.after.max.ms"] == InForce(value="604800000", source=SettingSource.TOPIC)
    assert saved.in_force["retention.ms"].source is not SettingSource.TOPIC
    assert int(saved.in_force["min.compaction.lag.ms"].value) < 2**40, "what the guard sets is not what counts"
    lose_state(small)
    planned = restore.plan(small.recovery, asked(small.recovery))
    (step,) = (step for step in planned.create if step.name == tp.topic)
    assert step.final_config == before | own
    (told,) = (warning for warning in planned.warnings if "not set again" in warning)
    assert told.startswith(f"leader.replication.throttled.replicas=0:0 of {tp.topic}")
    ticket = opened(small.recovery, asked(small.recovery))
    save_state(small.recovery, ticket)
    loaded(small.recovery, ticket)
    restored = small.recovery.cluster.describe_topics([tp.topic])[tp.topic].config
    assert owner_config(restored) == before | own


@pytest.mark.fault("F105")
def test_a_cleanup_policy_that_the_cluster_does_not_take_refuses_the_plan_and_its_preflight_says_so(small: Small) -> None:
    recovery, name = small.recovery, small.changelog.topic
    saved = recovery.savepoints.read(take(small).savepoint_id)
    # Taken where brokers know a policy that these do not know.
    topics = tuple(
        replace(one, config=one.config | {"cleanup.policy": "compact,tiered"}) if one.name == name else one for one in saved.topics
    )
    later = replace(saved, savepoint_id=new_id(recovery.clock(), "policy", after=[saved.savepoint_id]), topics=topics)
    recovery.savepoints.publish(later)
    lose_state(small)
    with pytest.raises(Refused, match="does not take settings that decide which records are kept") as caught:
        restore.plan(recovery, asked(recovery, savepoint=later.savepoint_id))
    (told,) = caught.value.facts["settings"]
    assert told.startswith(f"cleanup.policy=compact,tiered of {name} (")
    (found,) = blocking(before_restore(recovery, later))
    assert told in found.text
    assert restore.plan(recovery, asked(recovery, savepoint=saved.savepoint_id)).create


@pytest.mark.fault("F32")
def test_large_records_come_back_as_they_were(small: Small) -> None:
    tp = small.changelog
    alter(small.recovery.cluster, {tp.topic: {"max.message.bytes": "11000000"}})
    values = [os.urandom(1_500_000), os.urandom(10 << 20)]
    settings = {"bootstrap.servers": small.recovery.connection.bootstrap_servers, "message.max.bytes": 12_000_000, "log_level": 0}
    producer = Producer(settings)
    for value in values:
        producer.produce(tp.topic, value, b"large", 0)
    assert producer.flush(60) == 0
    manifest = published(small)
    assert [row["value"] for row in rows_of(small.recovery, manifest, tp)][-2:] == values
    lose_state(small)
    (step,) = (step for step in restore.plan(small.recovery, asked(small.recovery)).create if step.name == tp.topic)
    files = step.partitions[0].files
    root = Path(str(small.recovery.config.storage.path))
    for config, taken in (({}, False), (step.held_config, True)):
        small.recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config=config)
        with PartitionWriter(Producers(small.recovery.connection), tp, expected_end=0) as writer:
            batches = [batch for file in files for batch in read_segment(root / file.key, file)]
            if taken:
                for batch in batches:
                    writer.write(batch)
                assert writer.finish().rows == 6
            else:
                with pytest.raises(Refused) as caught:
                    for batch in batches:
                        writer.write(batch)
                assert (caught.value.facts["topic"], caught.value.facts["archived_offset"]) == (tp.topic, 4)
                assert (caught.value.facts["bytes"], caught.value.facts["max_message_bytes"]) == (1_500_005, 1_048_588)
        if not taken:
            assert small.recovery.cluster.high_watermarks([tp])[tp] == 0
            small.recovery.cluster.delete_topics([tp.topic])
    assert [row[2] for row in rows_in(read(small.recovery.connection, tp, 4, 6))] == values


@pytest.mark.fault("F40")
def test_a_registry_s_records_are_told_in_the_plan(small: Small) -> None:
    framed = b"\0" + (17).to_bytes(4, "big") + b"avro"
    small.recovery.cluster.delete_topics([small.changelog.topic])
    small.recovery.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    producer.produce(small.changelog.topic, framed, b"k", 0)
    assert producer.flush(30) == 0
    take(small)
    lose_state(small)
    (told,) = restore.plan(small.recovery, asked(small.recovery)).warnings
    assert told.startswith(f"values of {small.changelog.topic} look like a schema registry's: schema ids in records are not translated")


HOUR = 3_600_000


@pytest.mark.deep
@pytest.mark.parametrize(("begins", "last", "told"), [(3 * HOUR, 2 * HOUR, True), (3 * HOUR, HOUR, False), (0, 2 * HOUR, False)])
def test_windows_that_begin_after_their_records_are_told_in_the_plan(small: Small, begins: int, last: int, *, told: bool) -> None:
    """Kafka Streams 4.4 may not restore them. What reaches back no further than the store's retention, an hour here, is restored whole."""
    small.recovery.cluster.delete_topics([small.changelog.topic])
    config = {"cleanup.policy": "compact,delete", "retention.ms": str(25 * HOUR)}
    small.recovery.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config=config)
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    now = time.time_ns() // 1_000_000 // HOUR * HOUR
    for at in (now - last, now):
        key = join_key(StoreKind.WINDOW, StoreKey(key=b"k", start=at + begins, seq=0))
        producer.produce(small.changelog.topic, b"v", key, 0, timestamp=at)
    assert producer.flush(30) == 0
    take(small)
    lose_state(small)
    warnings = restore.plan(small.recovery, asked(small.recovery)).warnings
    expected = f"windows of {small.changelog.topic} begin up to 10800 seconds after the records that wrote them."
    assert [one.startswith(expected) for one in warnings] == [True] * told


@pytest.mark.fault("F40")
def test_the_registry_s_own_topic_is_told_of(bootstrap: str, tmp_path: Path, small: Small) -> None:
    created = "_schemas" not in small.recovery.cluster.topic_names()
    if created:
        small.recovery.cluster.create_topic("_schemas", partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    (tmp_path / "second").mkdir()
    try:
        with small_application(bootstrap, tmp_path / "second", topics={"globals": ["_schemas"]}) as other:
            assert [told for told in take(other).warnings if "schema ids in records are not translated" in told]
    finally:
        if created:
            small.recovery.cluster.delete_topics(["_schemas"])


@pytest.mark.fault("F24")
def test_a_compacted_changelog_is_what_survived_and_ends_where_the_cut_does(small: Small) -> None:
    tp, recovery = small.changelog, small.recovery
    eager = {"min.cleanable.dirty.ratio": "0.001", "segment.ms": "200", "min.compaction.lag.ms": "0", "delete.retention.ms": "0"}
    alter(recovery.cluster, {tp.topic: eager})
    for _ in range(3):
        produce(recovery, tp, 200)
        produce_one(recovery, tp, b"gone", None)
        time.sleep(0.4)
    produce_one(recovery, tp, b"last", b"1")  # the segment that is written to is never cleaned
    end = recovery.cluster.high_watermarks([tp])[tp]
    give_up = time.monotonic() + 120
    while len(left := rows_in(read(recovery.connection, tp, 0, end))) > 250 and time.monotonic() < give_up:
        time.sleep(0.5)
    assert len(left) < 250
    manifest = published(small)
    image = manifest.topic(tp.topic)
    assert image is not None
    rows = rows_of(recovery, manifest, tp)
    assert (image.partitions[0].end, image.rows) == (end, len(rows))
    assert len(rows) < 250 < end, "rows are counted and not subtracted"
    state = {row["key"]: row["value"] for row in rows if row["value"] is not None}
    assert state == {b"last": b"1", **{b"k%d" % number: b"v%d" % number for number in range(200)}}
    assert recovery.cluster.describe_topics([tp.topic])[tp.topic].config["min.compaction.lag.ms"] == "0", "as it was before the guard"


def produce_one(recovery: RecoveryContext, tp: TopicPartition, key: bytes, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    producer.produce(tp.topic, value, key, tp.partition)
    assert producer.flush(30) == 0


def transaction(small: Small, tp: TopicPartition, value: bytes, *, done: bool) -> None:
    settings = {"bootstrap.servers": small.recovery.connection.bootstrap_servers, "transactional.id": uuid.uuid4().hex, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(tp.topic, value, b"k%d" % number, tp.partition)
    producer.flush(30)
    producer.commit_transaction(30) if done else producer.abort_transaction(30)
    await_markers(small.recovery, [tp])


@pytest.mark.fault("F25")
def test_aborted_records_are_in_no_file_and_move_no_offset(small: Small) -> None:
    for tp in (small.changelog, small.tail):
        for done in (False, True, False):
            transaction(small, tp, b"kept" if done else b"aborted", done=done)
    # Offsets 0..3 plain, 4..7 aborted with marker, 8..11 kept, 12..15 aborted. The second of the kept ones is read next.
    commit(small.recovery, {small.input: 4, small.tail: 9})
    manifest = published(small)
    assert [row["value"] for row in rows_of(small.recovery, manifest, small.changelog)] == [b"v0", b"v1", b"v2", b"v3"] + [b"kept"] * 3
    assert [(row["offset"], row["value"]) for row in rows_of(small.recovery, manifest, small.tail)] == [(9, b"kept"), (10, b"kept")]
    image = manifest.topic(small.tail.topic)
    assert image is not None
    assert image.partitions[0].end == 16
    lose_state(small)
    offsets = {item.tp: item.wanted.offset for item in restore.plan(small.recovery, asked(small.recovery)).offsets}
    assert offsets == {small.input: 4, small.tail: 0}


@pytest.mark.deep
@pytest.mark.fault("F49")
@pytest.mark.parametrize(("committed", "rows"), [(0, 4), (1, 3), (3, 1), (4, 0), (None, 4)])
def test_the_unread_tail_of_a_repartition_topic_is_what_comes_back(small: Small, committed: int | None, rows: int) -> None:
    small.recovery.groups.delete(small.recovery.application_id)
    commits = {small.input: CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)}
    if committed is not None:
        commits[small.tail] = CommittedOffset(offset=committed, metadata="", leader_epoch=None)
    small.recovery.groups.set_offsets(small.recovery.application_id, commits)
    manifest = published(small)
    assert [row["value"] for row in rows_of(small.recovery, manifest, small.tail)] == [b"v%d" % number for number in range(4 - rows, 4)]
    lose_state(small)
    planned = restore.plan(small.recovery, asked(small.recovery))
    assert {item.tp: item.wanted.offset for item in planned.offsets}[small.tail] == 0
    assert {step.name: step.rows for step in planned.create} == {small.changelog.topic: 4, small.tail.topic: rows}


@pytest.mark.fault("F33")
def test_logs_that_are_empty_or_begin_late_and_offsets_at_the_end(small: Small) -> None:
    alter(small.recovery.cluster, {small.changelog.topic: {"cleanup.policy": "compact,delete"}})
    for tp, first in ((small.changelog, 4), (small.tail, 2), (small.input, 5)):
        delete_below(small.recovery, tp, first)
    commit(small.recovery, {small.input: 5, small.tail: 4})
    manifest = published(small)
    for tp, start, end in ((small.changelog, 4, 4), (small.tail, 2, 4), (small.input, 5, 5)):
        image = manifest.topic(tp.topic)
        assert image is not None
        assert (image.partitions[0].log_start, image.partitions[0].end, image.rows) == (start, end, 0)
    assert list(manifest.files()) == []
    lose_state(small)
    planned = restore.plan(small.recovery, asked(small.recovery))
    assert {item.tp: item.wanted.offset for item in planned.offsets} == {small.input: 5, small.tail: 0}
    assert {step.name: (len(step.partitions), step.rows) for step in planned.create} == {
        small.changelog.topic: (1, 0),
        small.tail.topic: (1, 0),
    }
    small.recovery.cluster.create_topic(small.changelog.topic, partitions=1, replication_factor=1, config={})
    produce(small.recovery, small.changelog, 1)
    small.recovery.cluster.create_topic(small.tail.topic, partitions=1, replication_factor=1, config={})
    assert published(small, changed_state=ChangedState.INTENDED).records == 1, "and the next one finds the new log"
