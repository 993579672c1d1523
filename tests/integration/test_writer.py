"""Writing one partition of a real broker: what is refused, and that nobody else writes there."""

from __future__ import annotations

import os
import time

import pytest
from confluent_kafka import Producer

from streams_recovery.core.errors import Damaged, Refused, TargetNotEmpty
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.writer import PartitionWriter, Producers, Written
from tests.support.examples.rows import batch_of, rows_in
from tests.support.kafka.records import end_of, read, topic, write
from tests.support.kafka.topic_settings import alter

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("way")]


STAMPS = [0, -1, -5, -(2**62), -(2**63), 1, 2**63 - 1]


@pytest.mark.fault("F30")
@pytest.mark.parametrize("stamp", STAMPS)
def test_any_timestamp_is_written_in_any_shape_of_record(connection, tp, stamp):
    shapes = [(None, None, None), (b"", None, None), (None, b"", None), (b"k", b"v", [("h", None), ("h", b""), ("", b"\xff")])]
    rows = [(1, None, b"before", None), *((stamp, *shape) for shape in shapes), (2**63 - 1, None, b"after", None)]
    assert write(connection, tp, rows) == Written(rows=6, first=0, last=5)
    assert rows_in(read(connection, tp, 0, 6)) == rows


@pytest.mark.deep
@pytest.mark.fault("F30")
def test_two_clients_that_take_turns_keep_the_order_over_many_batches(connection):
    with topic(connection, max_message_bytes="20000") as name:
        tp = TopicPartition(name, 0)
        # Runs of one client and the other, zeros within a batch and beside it, and more than a batch of the broker's limit in each.
        stamps = [0, -(2**63), 5, 2**63 - 1]
        rows = [(stamps[number * number % 7 % 4], b"%d" % number, os.urandom(500), [("h", None)]) for number in range(600)]
        rows += [(7, b"plain", os.urandom(500), None)] * 200 + [(0, None, os.urandom(15_000), None)] * 3
        with PartitionWriter(Producers(connection), tp, expected_end=0) as writer:
            for at in range(0, len(rows), 97):
                writer.write(batch_of(rows[at : at + 97]))
            assert writer.finish() == Written(rows=len(rows), first=0, last=len(rows) - 1)
        assert rows_in(read(connection, tp, 0, len(rows))) == rows


@pytest.mark.deep
@pytest.mark.fault("F30")
def test_a_record_without_a_time_is_small_enough_once_compressed(connection, tp):
    rows = [(0, None, b"x" * 5_000_000, None), (0, None, b"y", None)]
    write(connection, tp, rows)
    assert rows_in(read(connection, tp, 0, 2)) == rows


@pytest.mark.deep
@pytest.mark.fault("F30")
def test_a_broker_that_refuses_a_time_of_zero_is_named_and_nothing_behind_it_is_written(connection, tp):
    with KafkaCluster(connection) as cluster:
        alter(cluster, {tp.topic: {"message.timestamp.before.max.ms": "1000000"}})
    recent = int(time.time() * 1000)
    with pytest.raises(Refused, match=f"{tp}: row 1 of this load was not written") as caught:
        write(connection, tp, [(recent, None, b"taken", None), (0, None, b"not", None), (recent, None, b"never", None)])
    assert (caught.value.facts["acknowledged"], caught.value.facts["error_name"]) == (1, "InvalidTimestampError")
    assert end_of(connection, tp) == 1


@pytest.mark.deep
def test_the_first_error_stops_the_writer_and_nothing_behind_it_is_written(connection):
    rows = [(1, None, b"v", None)] * 100 + [(1, None, os.urandom(2_000_000), None)] + [(1, None, b"after", None)] * 50_000
    with topic(connection, max_message_bytes="3000000") as name, KafkaCluster(connection) as cluster:
        tp = TopicPartition(name, 0)
        with PartitionWriter(Producers(connection), tp, expected_end=0) as writer:
            alter(cluster, {name: {"max.message.bytes": "1000000"}})  # only the broker knows of it
            with pytest.raises(Refused) as caught:
                writer.write(batch_of(rows))
                writer.finish()
        facts = caught.value.facts
        assert (facts["acknowledged"], facts["max_message_bytes"]) == (100, 3_000_000)
        assert end_of(connection, tp) == 100


@pytest.mark.parametrize(("size", "limit"), [(1_100_000, None), (10 << 20, "10000000")])
def test_a_record_that_the_topic_does_not_take_is_refused_before_its_batch_is_sent(connection, size, limit):
    settings = {"max_message_bytes": limit} if limit else {}
    with topic(connection, **settings) as name:
        tp = TopicPartition(name, 0)
        rows = [(1, None, b"before", None), (1, b"k", os.urandom(size - 1), None), (1, None, b"after", None)]
        taken = int(limit or 1_048_588)
        with pytest.raises(Refused) as caught:
            write(connection, tp, rows)
        assert (
            caught.value.facts["topic"],
            caught.value.facts["archived_offset"],
            caught.value.facts["bytes"],
            caught.value.facts["max_message_bytes"],
        ) == (name, 1, size, taken)
        assert f"above {size}" in caught.value.next_step
        assert end_of(connection, tp) == 0


@pytest.mark.deep
def test_a_record_that_is_small_enough_once_compressed_is_written(connection, tp):
    rows = [(1, None, b"x" * 5_000_000, None)]
    write(connection, tp, rows)
    assert rows_in(read(connection, tp, 0, 1)) == rows


@pytest.mark.deep
def test_large_records_are_written_where_the_topic_takes_them(connection):
    with topic(connection, max_message_bytes="6000000") as name:
        tp = TopicPartition(name, 0)
        value = os.urandom(5_000_000)
        write(connection, tp, [(1, None, value, None)] * 3)
        assert [row[2] for row in rows_in(read(connection, tp, 0, 3))] == [value] * 3


@pytest.mark.deep
def test_small_limits_do_not_make_batches_too_large(connection):
    with topic(connection, max_message_bytes="2000") as name:
        tp = TopicPartition(name, 0)
        rows = [(1, None, os.urandom(900), None) for _ in range(200)]
        write(connection, tp, rows)
        assert rows_in(read(connection, tp, 0, 200)) == rows


def test_a_partition_that_does_not_end_where_it_should_is_refused(connection, tp):
    write(connection, tp, [(1, None, b"v", None)])
    with pytest.raises(TargetNotEmpty, match="ends at 1, not at 0"), PartitionWriter(Producers(connection), tp, expected_end=0):
        pass


@pytest.mark.fault("F4")
@pytest.mark.parametrize("stamp", [0, 1])
def test_a_second_writer_is_noticed(connection, tp, stamp):
    with PartitionWriter(Producers(connection), tp, expected_end=0) as writer:
        writer.write(batch_of([(stamp, None, b"mine", None)]))
        assert writer.finish().rows == 1
        stranger = Producer(connection.client_config())
        stranger.produce(tp.topic, b"not mine", partition=0)
        stranger.flush()
        with pytest.raises(Damaged) as caught:
            writer.write(batch_of([(stamp, None, b"mine again", None)]))
            writer.finish()
        assert (caught.value.facts["acknowledged"], caught.value.facts["offset"], caught.value.facts["expected"]) == (1, 2, 1)


def test_nothing_written_is_nothing_claimed(connection, tp):
    with PartitionWriter(Producers(connection), tp, expected_end=0) as writer:
        writer.write(batch_of([]))
        assert writer.finish() == Written(rows=0, first=None, last=None)


@pytest.mark.deep
def test_topics_of_one_limit_share_a_producer_until_a_writer_fails(connection):
    rows = [(1, b"k", b"v", None)]
    with topic(connection) as first, topic(connection) as second, topic(connection, max_message_bytes="2000") as small:
        tps = [TopicPartition(name, 0) for name in (first, second, small)]
        with Producers(connection) as producers:
            for tp in tps:
                with PartitionWriter(producers, tp, expected_end=0) as writer:
                    writer.write(batch_of(rows))
                    assert writer.finish() == Written(rows=1, first=0, last=0)
            shared, other = producers.taking(1_048_588), producers.taking(2_000)
            assert shared is not other
            with pytest.raises(Refused), PartitionWriter(producers, tps[0], expected_end=1) as writer:
                writer.write(batch_of([(1, None, os.urandom(2_000_000), None)]))
            assert producers.taking(2_000) is other
            assert producers.taking(1_048_588) is not shared
            with PartitionWriter(producers, tps[1], expected_end=1) as writer:
                writer.write(batch_of(rows))
                assert writer.finish() == Written(rows=1, first=1, last=1)
        assert [len(rows_in(read(connection, tp, 0, end))) for tp, end in zip(tps, (1, 2, 1), strict=True)] == [1, 2, 1]
