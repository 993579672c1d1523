"""Reading and writing one partition of a real broker."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer

from streams_recovery.core.errors import BrokerUnavailable, Damaged, NotFound, OffsetsUnstable, Refused, TargetNotEmpty
from streams_recovery.core.model import TopicPartition
from streams_recovery.kafka import reader as reader_module
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.records import RowDigest
from streams_recovery.kafka.writer import PartitionWriter, Written
from tests.spark.rows import SHAPES, batch_of, connect, end_of, read, rows_in, topic, write

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def connection(bootstrap):
    return connect(bootstrap)


@pytest.fixture
def tp(connection):
    with topic(connection) as name:
        yield TopicPartition(name, 0)


@pytest.fixture(scope="module")
def shared(connection):
    with topic(connection) as name:
        yield TopicPartition(name, 0)


def test_every_shape_of_a_record_comes_back(connection, tp):
    assert write(connection, tp, SHAPES) == Written(rows=len(SHAPES), first=0, last=len(SHAPES) - 1)
    batches = read(connection, tp, 0, len(SHAPES))
    assert rows_in(batches) == SHAPES
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(len(SHAPES)))
    assert {kind for batch in batches for kind in batch.column("timestamp_type").to_pylist()} == {0}


maybe_bytes = st.none() | st.binary(max_size=30)
# A header's key is a C string on its way through the client: it ends at a NUL.
headers = st.none() | st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), maybe_bytes), min_size=1
)
rows_of = st.lists(st.tuples(st.integers(1, 2**63 - 1), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=30)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows_of)
def test_any_records_come_back_with_the_same_digest(connection, shared, rows):
    written = write(connection, shared, rows)
    assert written.rows == len(rows)
    batches = read(connection, shared, written.first, written.last + 1)
    assert rows_in(batches) == rows
    sent, found = RowDigest(), RowDigest()
    sent.update(batch_of(rows))
    for batch in batches:
        found.update(batch)
    assert found.hexdigest() == sent.hexdigest()


def test_timestamps_that_cannot_be_written_are_read_as_they_are(connection, bootstrap, tp):
    stamps = [0, -1, -5, -(2**62)]
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for stamp in stamps:
        producer.send(tp.topic, value=b"v", timestamp_ms=stamp, partition=0).get(10)
    producer.close()
    assert [row[0] for row in rows_in(read(connection, tp, 0, 4))] == stamps


def test_the_broker_s_own_timestamps_are_marked(connection):
    with topic(connection, message_timestamp_type="LogAppendTime") as name:
        tp = TopicPartition(name, 0)
        producer = Producer(connection.client_config())
        producer.produce(name, b"v", partition=0, timestamp=5)
        producer.flush()
        (batch,) = read(connection, tp, 0, 1)
        assert batch.column("timestamp_type").to_pylist() == [1]
        assert batch.column("timestamp").to_pylist()[0] > 5


def transaction(connection, tp, values, *, commit):
    producer = Producer(connection.client_config(**{"transactional.id": tp.topic}))
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(tp.topic, value, partition=tp.partition)
    producer.flush()
    if commit is None:
        return producer
    producer.commit_transaction() if commit else producer.abort_transaction()
    return None


def test_aborted_records_and_markers_take_offsets_but_are_no_rows(connection, tp):
    transaction(connection, tp, [b"a1", b"a2"], commit=False)
    transaction(connection, tp, [b"c1", b"c2"], commit=True)
    transaction(connection, tp, [b"a3"] * 500, commit=False)
    end = end_of(connection, tp)
    assert end == 3 + 3 + 501
    with RangeReader(connection, tp, 0, end) as reader:
        assert [row[2] for row in rows_in(reader)] == [b"c1", b"c2"]
        assert 2 <= reader.fetched <= end
    assert read(connection, tp, 6, end) == []  # nothing but aborted records
    assert read(connection, tp, 5, 6) == []  # nothing but a marker
    assert [row[2] for row in rows_in(read(connection, tp, 4, 5))] == [b"c2"]


def test_a_range_ends_where_it_should_when_the_log_goes_on(connection, tp):
    values = [b"%d" % number + os.urandom(300) for number in range(50_000)]
    write(connection, tp, [(1, None, value, None) for value in values])
    with RangeReader(connection, tp, 100, 120) as reader:
        assert [row[2] for row in rows_in(reader)] == values[100:120]
        # What was fetched ahead is told, and is bounded by one small response.
        assert 20 <= reader.fetched < 10_000
    with RangeReader(connection, tp, 49_990, 50_000) as reader:
        assert len(rows_in(reader)) == 10
        assert reader.fetched == 10


def test_an_empty_range_reads_nothing(connection, tp):
    with RangeReader(connection, tp, 0, 0) as reader:
        assert list(reader) == []
        assert (reader.fetched, reader.log_start()) == (0, 0)


def delete_below(connection, tp, offset):
    from confluent_kafka import TopicPartition as ClientPartition

    with Clients(connection, timeout=10) as clients:
        for future in clients.librdkafka.delete_records([ClientPartition(tp.topic, tp.partition, offset)]).values():
            future.result()


def test_offsets_that_are_gone_are_named(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 10)
    delete_below(connection, tp, 4)
    with pytest.raises(Damaged, match=r"offsets 1\.\.3 of .* are gone") as caught:
        read(connection, tp, 1, 10)
    assert (caught.value.facts["gone_start"], caught.value.facts["gone_end"]) == (1, 4)
    with RangeReader(connection, tp, 4, 10) as reader:
        assert len(rows_in(reader)) == 6
        assert reader.log_start() == 4


def test_offsets_that_go_while_they_are_read_are_no_quiet_end(connection, tp):
    rows = 60_000  # more than the client fetches ahead
    write(connection, tp, [(1, None, os.urandom(1000), None) for _ in range(rows)])
    with RangeReader(connection, tp, 0, rows) as reader:
        batches = iter(reader)
        next(batches)
        delete_below(connection, tp, rows)
        with pytest.raises(Damaged, match="are gone"):
            list(batches)
    assert reader.position < rows


def test_a_log_that_ends_early_is_damaged_and_not_short(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 3)
    with pytest.raises(Damaged, match="ends at 3, before 5"):
        read(connection, tp, 0, 5, stall_seconds=0.5)
    with pytest.raises(Damaged, match="ends at 3, before 4"):
        read(connection, tp, 4, 5, stall_seconds=0.5)


def test_an_open_transaction_is_named_with_its_partition_and_position(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 3)
    producer = transaction(connection, tp, [b"open"], commit=None)
    try:
        with pytest.raises(OffsetsUnstable, match=rf"{tp} stands at 3, short of 4") as caught:
            read(connection, tp, 0, 4, stall_seconds=0.5)
        assert caught.value.facts["position"] == 3
    finally:
        producer.abort_transaction()


def test_nobody_at_the_address(monkeypatch):
    monkeypatch.setattr(reader_module, "ASK_SECONDS", 0.5)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        read(connect("127.0.0.1:1"), TopicPartition("none", 0), 0, 5)


def test_a_topic_that_is_not_there(connection, monkeypatch):
    monkeypatch.setattr(reader_module, "ASK_SECONDS", 0.5)
    with pytest.raises(NotFound):
        read(connection, TopicPartition("rows-that-never-were", 0), 0, 5)
    with pytest.raises(NotFound), PartitionWriter(connection, TopicPartition("rows-that-never-were", 0), expected_end=0):
        pass


def test_batches_stay_small_when_large_records_follow_small_ones(connection, tp):
    small, large = [(1, None, b"s", None)] * 50_000, [(1, None, os.urandom(900_000), None) for _ in range(80)]
    write(connection, tp, small)
    write(connection, tp, large)
    sizes = [batch.nbytes for batch in read(connection, tp, 0, 50_080)]
    assert sum(sizes) > 70_000_000
    # What the client holds ready when a batch is taken bounds it; without a bound all 72 MB would be one.
    assert max(sizes) < 48 << 20


@pytest.mark.parametrize("stamp", [0, -1, -(2**62)])
def test_a_timestamp_that_would_be_altered_is_refused_before_its_batch_is_sent(connection, tp, stamp):
    rows = [(1, None, b"before", None), (stamp, None, b"bad", None)]
    with pytest.raises(Refused, match=f"archived offset 1 has timestamp {stamp}"):
        write(connection, tp, rows)
    assert end_of(connection, tp) == 0


def test_the_first_error_stops_the_writer_and_nothing_behind_it_is_written(connection, tp):
    rows = [(1, None, b"v", None)] * 100 + [(1, None, os.urandom(2_000_000), None)] + [(1, None, b"after", None)] * 50_000
    with pytest.raises(Refused, match=r"row 100 of this load was not written \(the topic's max.message.bytes is 1048588\)") as caught:
        write(connection, tp, rows)
    assert caught.value.facts["acknowledged"] == 100
    assert end_of(connection, tp) == 100


def test_large_records_are_written_where_the_topic_takes_them(connection):
    with topic(connection, max_message_bytes="6000000") as name:
        tp = TopicPartition(name, 0)
        value = os.urandom(5_000_000)
        write(connection, tp, [(1, None, value, None)] * 3)
        assert [row[2] for row in rows_in(read(connection, tp, 0, 3))] == [value] * 3


def test_small_limits_do_not_make_batches_too_large(connection):
    with topic(connection, max_message_bytes="2000") as name:
        tp = TopicPartition(name, 0)
        rows = [(1, None, os.urandom(900), None) for _ in range(200)]
        write(connection, tp, rows)
        assert rows_in(read(connection, tp, 0, 200)) == rows


def test_a_partition_that_does_not_end_where_it_should_is_refused(connection, tp):
    write(connection, tp, [(1, None, b"v", None)])
    with pytest.raises(TargetNotEmpty, match="ends at 1, not at 0"), PartitionWriter(connection, tp, expected_end=0):
        pass


def test_a_second_writer_is_noticed(connection, tp):
    with PartitionWriter(connection, tp, expected_end=0) as writer:
        writer.write(batch_of([(1, None, b"mine", None)]))
        assert writer.finish().rows == 1
        stranger = Producer(connection.client_config())
        stranger.produce(tp.topic, b"not mine", partition=0)
        stranger.flush()
        writer.write(batch_of([(1, None, b"mine again", None)]))
        with pytest.raises(Damaged, match="row 1 was written at offset 2, not at 1"):
            writer.finish()


def test_nothing_written_is_nothing_claimed(connection, tp):
    with PartitionWriter(connection, tp, expected_end=0) as writer:
        writer.write(batch_of([]))
        assert writer.finish() == Written(rows=0, first=None, last=None)
