"""The three jobs on a real broker, in one session."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as LogPosition

from spark_jobs.transforms.compare import compare_partitions
from spark_jobs.transforms.load import load_partitions
from spark_jobs.transforms.range_copy import copy_ranges
from spark_jobs.transforms.task_runner import TaskFailed
from streams_recovery.core.errors import Damaged, TargetNotEmpty
from streams_recovery.core.jobs.spec import (
    BackupSpec,
    CutBy,
    PartitionToLoad,
    PartitionToVerify,
    RangeToCopy,
    RestoreSpec,
    RowCut,
    VerifySpec,
)
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.kafka.clients import Clients
from tests.support.examples.rows import SHAPES, digest_of, rows_in
from tests.support.kafka.records import end_of, read, write
from tests.support.spark.jobs import APPLICATION, BASE, backup

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def restore(spark, access, *loads):
    wanted = tuple(PartitionToLoad(tp=tp, first_offset=first, files=SegmentFiles.of(files)) for tp, first, files in loads)
    return load_partitions(spark.sparkContext, RestoreSpec(application_id=APPLICATION, partitions=wanted), access).partitions


def check_of(tp, files, target, start, end):
    return PartitionToVerify(tp=tp, target_topic=target, topic_id="", start=start, end=end, files=SegmentFiles.of(files))


def verify(spark, access, *pairs, keyed=()):
    """Each pair: archived partition and its files, target partition and its range."""
    wanted = tuple(check_of(*pair) for pair in pairs)
    return compare_partitions(spark.sparkContext, VerifySpec(application_id=APPLICATION, partitions=wanted, keyed=keyed), access)


def temporary_files():
    return {path.name for path in Path(tempfile.gettempdir()).glob("streams-recovery-*")}


@pytest.mark.deep
@pytest.mark.fault("F28", "F29")
def test_every_shape_of_a_record_goes_there_and_back(spark, access, connection, topics):
    before = temporary_files()
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, SHAPES)
    (copied,) = backup(spark, access, (source, 0, len(SHAPES)))
    file = copied.copied.file
    assert (file.rows, file.first_offset, file.last_offset) == (len(SHAPES), 0, len(SHAPES) - 1)
    assert (file.min_timestamp, file.max_timestamp) == (1, 2**62)
    assert file.payload_bytes == sum(len(row[1] or b"") + len(row[2] or b"") for row in SHAPES)
    assert (copied.fetched, copied.log_start_after) == (len(SHAPES), 0)
    (loaded,) = restore(spark, access, (target, 0, (file,)))
    assert (loaded.rows, loaded.acknowledged_first, loaded.acknowledged_last) == (len(SHAPES), 0, len(SHAPES) - 1)
    assert rows_in(read(connection, target, 0, len(SHAPES))) == SHAPES
    result = verify(spark, access, (source, (file,), target.topic, 0, len(SHAPES)), keyed=(source.topic,))
    assert result.partitions[0].equal
    assert (result.partitions[0].archived_rows, result.partitions[0].loaded_rows) == (len(SHAPES), len(SHAPES))
    assert (result.keys[0].keys_compared, result.keys[0].keys_different) == (3, 0)
    keys_only = replace(check_of(source, (file,), target.topic, 0, len(SHAPES)), rows_proven=True)
    again = compare_partitions(
        spark.sparkContext, VerifySpec(application_id=APPLICATION, partitions=(keys_only,), keyed=(source.topic,)), access
    )
    assert (again.partitions, again.keys) == ((), result.keys), "its rows are not read for a digest that is known"
    # What a killed process left there may be gone by now.
    assert temporary_files() <= before


@pytest.mark.deep
@pytest.mark.parametrize(("by", "taken"), [(CutBy.TIMESTAMP, [0, 2, 4, 5]), (CutBy.POSITION, [0])])
def test_only_the_rows_of_a_moment_are_loaded_also_behind_an_interrupted_load_and_compared(spark, access, connection, topics, by, taken):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    rows = [(at, b"k%d" % number, b"v", None) for number, at in enumerate((10, 30, 20, 30, 20, 20, 40))]
    write(connection, source, rows)
    files = tuple(done.copied.file for done in backup(spark, access, (source, 0, 3), (source, 3, 7)))
    wanted = [rows[number] for number in taken]
    cut = RowCut(by=by, moment=20, first_later=1, rows=len(wanted), late=0)
    write(connection, target, wanted[:1])
    load = PartitionToLoad(tp=TopicPartition(target.topic, 0), first_offset=0, files=SegmentFiles.of(files), present=1, cut=cut)
    result = load_partitions(spark.sparkContext, RestoreSpec(application_id=APPLICATION, partitions=(load,)), access)
    (loaded,), (found,) = result.partitions, result.read
    assert (loaded.rows, loaded.present, loaded.archived_rows) == (len(wanted), 1, len(wanted))
    assert loaded.digest == found.digest == digest_of(wanted), "the row that was there is a part of it"
    assert (found.start, found.end, found.rows) == (0, len(wanted), len(wanted))
    assert rows_in(read(connection, target, 0, len(wanted))) == wanted
    check = PartitionToVerify(
        tp=TopicPartition(source.topic, 0),
        target_topic=target.topic,
        topic_id="",
        start=0,
        end=len(wanted),
        files=SegmentFiles.of(files),
        cut=cut,
    )
    for other, equal in ((check, True), (replace(check, cut=replace(cut, moment=10, first_later=0)), False)):
        (found,) = compare_partitions(
            spark.sparkContext, VerifySpec(application_id=APPLICATION, partitions=(other,), keyed=()), access
        ).partitions
        assert found.equal == equal
    assert (found.archived_rows, found.loaded_rows) == (1 if by is CutBy.TIMESTAMP else 0, len(wanted))


def test_a_segment_is_plain_parquet_to_others(spark, access, connection, topics):
    source = TopicPartition(topics(), 0)
    write(connection, source, SHAPES)
    (copied,) = backup(spark, access, (source, 0, len(SHAPES)))
    path = Path(access.location.path) / copied.copied.file.key
    rows = duckdb.sql(f"select \"offset\", timestamp, timestamp_type, key, value, headers from '{path}' order by 1").fetchall()
    assert [(row[1], row[3], row[4]) for row in rows] == [row[:3] for row in SHAPES]
    assert [each and [(pair["key"], pair["value"]) for pair in each] for *_, each in rows] == [row[3] for row in SHAPES]
    frame = spark.read.parquet(str(path))
    assert [row.value for row in frame.orderBy("offset").collect()] == [row[2] for row in SHAPES]


def test_only_committed_records_of_the_range_are_copied_and_files_continue_each_other(spark, access, connection, topics):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    for commit, value in ((False, b"aborted"), (True, b"committed"), (False, b"aborted")):
        # One id for all of them: the broker lets the next one begin when the markers of the one before are written.
        producer = Producer(connection.client_config(**{"transactional.id": source.topic}))
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(source.topic, value, b"k", 0, timestamp=7)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()
    copied = backup(spark, access, (source, 0, 9), (source, 9, 12), (source, 12, 18))
    assert [done.copied.file and done.copied.file.rows for done in copied] == [3, 2, None]
    assert [(done.copied.start, done.copied.end) for done in copied] == [(0, 9), (9, 12), (12, 18)]
    files = tuple(done.copied.file for done in copied if done.copied.file)
    (loaded,) = restore(spark, access, (target, 0, files))
    assert loaded.rows == 5
    assert rows_in(read(connection, target, 0, 5)) == [(7, b"k", b"committed", None)] * 5
    assert verify(spark, access, (source, files, target.topic, 0, 5)).partitions[0].equal


def test_a_job_tells_what_it_came_too_late_for(spark, access, connection, topics):
    source, whole = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, BASE)
    write(connection, whole, BASE)
    with Clients(connection, timeout=10) as clients:
        for future in clients.librdkafka.delete_records([LogPosition(source.topic, 0, 3)]).values():
            future.result()
    wanted = tuple(
        RangeToCopy(tp=TopicPartition(tp.topic, 0), start=start, end=end, size_hint=end, may_lose=True)
        for tp, start, end in ((source, 0, 2), (whole, 0, 5), (source, 2, 5))
    )
    result = copy_ranges(spark.sparkContext, BackupSpec(application_id=APPLICATION, ranges=wanted, compression_level=3), access)
    assert [(done.tp, done.copied.start, done.copied.end, done.copied.file.rows) for done in result.ranges] == [
        (whole, 0, 5, 5),
        (source, 3, 5, 2),
    ]
    assert [(lost.tp, lost.start, lost.end) for lost in result.lost] == [(source, 0, 2), (source, 2, 3)]


@pytest.mark.fault("F1")
def test_attempts_never_meet_and_a_repeated_backup_is_the_same_bytes(spark, access, connection, topics):
    source = TopicPartition(topics(), 0)
    write(connection, source, SHAPES)
    (first,), (second,) = (backup(spark, access, (source, 2, 6)) for _ in range(2))
    assert first.copied.file.key != second.copied.file.key
    assert first.copied.file.sha256 == second.copied.file.sha256
    assert first.copied.file.first_offset == 2


def test_nothing_to_do_is_done_and_counts_as_nothing(spark, access, topics):
    target = TopicPartition(topics(), 0)
    assert backup(spark, access) == ()
    assert restore(spark, access, (target, 0, ()))[0].rows == 0
    result = verify(spark, access, (target, (), target.topic, 0, 0), keyed=(target.topic,))
    assert (result.partitions[0].archived_rows, result.partitions[0].loaded_rows) == (0, 0)
    assert result.keys[0].keys_compared == 0


DAMAGES = {
    "none": BASE,
    "one byte": [*BASE[:2], (12, b"k2", b"v3", [("h", b"x")]), *BASE[3:]],
    "missing row": [*BASE[:2], *BASE[3:]],
    "row too many": [*BASE, BASE[4]],
    "other order": [BASE[1], BASE[0], *BASE[2:]],
    "timestamp": [*BASE[:4], (99, b"k4", b"v4", [("h", b"x")])],
    "header": [*BASE[:4], (14, b"k4", b"v4", [("h", b"y")])],
    "header gone": [*BASE[:4], (14, b"k4", b"v4", None)],
    "tombstone for empty": [*BASE[:4], (14, b"k4", None, [("h", b"x")])],
}


@pytest.mark.deep
def test_verification_sees_every_kind_of_damage(spark, access, connection, topics):
    source = TopicPartition(topics(), 0)
    write(connection, source, BASE)
    (copied,) = backup(spark, access, (source, 0, len(BASE)))
    targets = {}
    for damage, rows in DAMAGES.items():
        targets[damage] = TopicPartition(topics(), 0)
        write(connection, targets[damage], rows)
    pairs = [
        (TopicPartition(target.topic, 0), (copied.copied.file,), target.topic, 0, len(DAMAGES[damage]))
        for damage, target in targets.items()
    ]
    result = verify(spark, access, *pairs, keyed=tuple(target.topic for target in targets.values()))
    assert {damage: part.equal for damage, part in zip(targets, result.partitions, strict=True)} == {
        damage: damage == "none" for damage in DAMAGES
    }
    different = {damage: store.keys_different for damage, store in zip(targets, result.keys, strict=True)}
    harmless_for_state = ("none", "row too many", "other order")
    assert different == {damage: 0 if damage in harmless_for_state else 1 for damage in DAMAGES}
    assert all(store.keys_compared == 5 for store in result.keys)


@pytest.mark.deep
@pytest.mark.fault("F10")
@pytest.mark.parametrize("position", ["first", "middle", "last"])
def test_one_flipped_bit_stops_the_load_before_a_row_is_sent(spark, access, connection, topics, position):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, BASE)
    (copied,) = backup(spark, access, (source, 0, len(BASE)))
    path = Path(access.location.path) / copied.copied.file.key
    data = bytearray(path.read_bytes())
    data[{"first": 0, "middle": len(data) // 2, "last": -1}[position]] ^= 1
    path.write_bytes(data)
    with pytest.raises(TaskFailed) as caught:
        restore(spark, access, (target, 0, (copied.copied.file,)))
    assert isinstance(caught.value.cause, Damaged)
    assert caught.value.cause.facts["key"] == copied.copied.file.key
    assert end_of(connection, target) == 0
    with pytest.raises(TaskFailed, match="cannot be trusted"):
        verify(spark, access, (source, (copied.copied.file,), target.topic, 0, 0))


@pytest.mark.fault("F9")
def test_a_torn_file_is_damaged(spark, access, connection, topics):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, BASE)
    (copied,) = backup(spark, access, (source, 0, len(BASE)))
    path = Path(access.location.path) / copied.copied.file.key
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TaskFailed, match=f"has {copied.copied.file.bytes - 1} bytes"):
        restore(spark, access, (target, 0, (copied.copied.file,)))


@pytest.mark.deep
def test_a_target_that_somebody_wrote_to_is_refused(spark, access, connection, topics):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    write(connection, source, BASE)
    write(connection, target, BASE[:1])
    (copied,) = backup(spark, access, (source, 0, len(BASE)))
    with pytest.raises(TaskFailed) as caught:
        restore(spark, access, (target, 0, (copied.copied.file,)))
    assert isinstance(caught.value.cause, TargetNotEmpty)
    assert end_of(connection, target) == 1
    behind = PartitionToLoad(tp=TopicPartition(target.topic, 0), first_offset=1, files=SegmentFiles.of((copied.copied.file,)))
    result = load_partitions(spark.sparkContext, RestoreSpec(application_id=APPLICATION, partitions=(behind,)), access)
    assert result.partitions[0].acknowledged_first == 1
    (found,) = result.read
    assert (found.start, found.end, found.rows) == (0, 6, 6), "what is there, not what was written"
    assert (result.partitions[0].digest, found.digest) == (digest_of(BASE), digest_of([BASE[0], *BASE]))


def test_records_without_a_time_are_restored_by_tasks_and_a_load_that_was_cut_off_goes_on(spark, access, connection, topics):
    source, target = TopicPartition(topics(), 0), TopicPartition(topics(), 0)
    rows = [BASE[0], *((stamp, b"k", None, [("h", None)]) for stamp in (0, -1, 0, -(2**63))), *BASE, (0, None, None, None)]
    write(connection, source, rows)
    (copied,) = backup(spark, access, (source, 0, len(rows)))
    assert copied.copied.file.min_timestamp == -(2**63)
    write(connection, target, rows[:2])
    wanted = PartitionToLoad(tp=TopicPartition(target.topic, 0), first_offset=0, files=SegmentFiles.of((copied.copied.file,)), present=2)
    result = load_partitions(spark.sparkContext, RestoreSpec(application_id=APPLICATION, partitions=(wanted,)), access)
    assert (result.partitions[0].digest, result.read[0].digest) == (digest_of(rows), digest_of(rows))
    assert rows_in(read(connection, target, 0, len(rows))) == rows


def test_offsets_that_are_gone_fail_the_backup_by_name(spark, access, connection, topics):
    source = TopicPartition(topics(), 0)
    write(connection, source, BASE)
    with pytest.raises(TaskFailed, match=rf"{source} ends at 5, before 6"):
        backup(spark, access, (source, 6, 7))
