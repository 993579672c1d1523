"""Reading one partition of a real broker, and that what was written comes back."""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer

from streams_recovery.core.errors import BrokerUnavailable, Damaged, NotFound, OffsetsGone, OffsetsUnstable, Refused
from streams_recovery.core.jobs.spec import RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.cut import LookAgain
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.waiting import poll
from streams_recovery.core.work import OffsetRange
from streams_recovery.kafka import reader as reader_module
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.native.librdkafka import _tried_out
from streams_recovery.kafka.native.writing import NativeSender
from streams_recovery.kafka.range_copy import copy_range, copy_what_is_left
from streams_recovery.kafka.reader import Consumers, RangeReader
from streams_recovery.kafka.writer import PartitionWriter, Producers, Written
from streams_recovery.segments.schema import RowDigest
from tests.support.examples.rows import SHAPES, batch_of, rows_in
from tests.support.kafka.mock_cluster import send
from tests.support.kafka.records import connect, end_of, read, topic, write

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("way")]


@pytest.fixture(scope="module")
def shared(connection):
    with topic(connection) as name:
        yield TopicPartition(name, 0)


@pytest.mark.fault("F28")
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


@pytest.mark.deep
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


@pytest.mark.fault("F30")
def test_timestamps_of_zero_and_below_are_read_as_they_are(connection, bootstrap, tp):
    stamps = [0, -1, -5, -(2**62)]
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for stamp in stamps:
        producer.send(tp.topic, value=b"v", timestamp_ms=stamp, partition=0).get(10)
    producer.close()
    assert [row[0] for row in rows_in(read(connection, tp, 0, 4))] == stamps


@pytest.mark.fault("F31")
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


@pytest.mark.fault("F25")
def test_aborted_records_and_markers_take_offsets_but_are_no_rows(connection, tp):
    transaction(connection, tp, [b"a1", b"a2"], commit=False)
    transaction(connection, tp, [b"c1", b"c2"], commit=True)
    transaction(connection, tp, [b"a3"] * 500, commit=False)
    # The answer to an abort comes before its marker is in the log.
    end = poll(lambda: found if (found := end_of(connection, tp)) == 3 + 3 + 501 else None, seconds=30)
    assert end is not None
    with RangeReader(connection, tp, 0, end) as reader:
        assert [row[2] for row in rows_in(reader)] == [b"c1", b"c2"]
        assert 2 <= reader.fetched <= end
    assert read(connection, tp, 6, end) == []  # nothing but aborted records
    assert read(connection, tp, 5, 6) == []  # nothing but a marker
    assert [row[2] for row in rows_in(read(connection, tp, 4, 5))] == [b"c2"]


@pytest.mark.deep
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


@pytest.mark.deep
def test_offsets_that_are_gone_are_named(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 10)
    delete_below(connection, tp, 4)
    with pytest.raises(Damaged, match=r"offsets 1\.\.3 of .* are gone") as caught:
        read(connection, tp, 1, 10)
    assert (caught.value.facts["gone_start"], caught.value.facts["gone_end"]) == (1, 4)
    with RangeReader(connection, tp, 4, 10) as reader:
        assert len(rows_in(reader)) == 6
        assert reader.log_start() == 4


@pytest.mark.deep
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


class Files:
    """A place for segments, and whoever meddles when the first bytes of one were read."""

    def __init__(self):
        self.stored = {}

    def put_file(self, key, path):
        self.stored[key] = pq.read_table(path)


@pytest.mark.deep
def test_what_is_left_of_a_range_that_is_deleted_while_it_is_read_is_copied(connection, tp):
    rows = 60_000  # more than the client fetches ahead
    write(connection, tp, [(1, None, b"%d" % number + os.urandom(1000), None) for number in range(rows)])
    wanted = RangeToCopy(tp=TopicPartition(tp.topic, 0), start=0, end=rows, size_hint=1, may_lose=True)
    files = Files()
    # At no certain moment: whatever was read before it and whatever is left behind it must be there, and nothing else be called lost.
    meddling = threading.Timer(0.4, delete_below, (connection, tp, rows - 10))
    meddling.start()
    outcome = copy_what_is_left(connection, files, Layout("app"), wanted, compression_level=1, attempt="a")()
    meddling.join()
    tiles = sorted([(p.copied.start, p.copied.end) for p in outcome.copied] + [(p.start, p.end) for p in outcome.lost])
    assert (tiles[0][0], tiles[-1][1]) == (0, rows)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(tiles))
    found = [(piece.copied, files.stored[piece.copied.file.key].column("offset").to_pylist()) for piece in outcome.copied]
    assert all(offsets == list(range(copied.start, copied.end)) for copied, offsets in found)
    assert found[-1][0].end == rows, "what was left"
    assert len(outcome.lost) <= 1
    assert all(piece.end == rows - 10 for piece in outcome.lost)
    assert len(files.stored) == len(outcome.copied)


class CutFirst(KafkaCluster):
    """A cluster whose log is cut at an offset right before it is asked for its batches, as retention may do at any moment."""

    def __init__(self, connection, at):
        super().__init__(connection)
        self.connection, self.at = connection, at

    def names_with_nul(self, ranges):
        for tp in ranges:
            delete_below(self.connection, tp, self.at)
        return super().names_with_nul(ranges)


@pytest.mark.fault("F87")
@pytest.mark.parametrize("may_lose", [True, False])
def test_what_is_deleted_before_the_names_of_its_headers_were_looked_at_is_gone_like_the_rest(connection, tp, may_lose):
    many = [(f"header-{number}", None) for number in range(200)]  # so many that compiled code asks too
    write(connection, tp, [(1, b"k", b"%d" % number, many if number >= 5 else None) for number in range(10)])
    wanted, files = RangeToCopy(tp=tp, start=0, end=10, size_hint=1, may_lose=may_lose), Files()
    with CutFirst(connection, 7) as cluster, Consumers(connection, cluster=cluster) as consumers:
        if not may_lose:
            with pytest.raises(OffsetsGone, match=r"offsets \d\.\.6 of .* are gone: its log now starts at 7"):
                copy_what_is_left(consumers, files, Layout("app"), wanted, compression_level=1, attempt="a")
            return
        outcome = copy_what_is_left(consumers, files, Layout("app"), wanted, compression_level=1, attempt="a")()
    tiles = sorted([(one.copied.start, one.copied.end) for one in outcome.copied] + [(one.start, one.end) for one in outcome.lost])
    assert (tiles[0][0], tiles[-1][1], [one.end for one in outcome.lost]) == (0, 10, [7])
    assert all(left[1] == right[0] for left, right in itertools.pairwise(tiles))
    for piece in outcome.copied:
        offsets = files.stored[piece.copied.file.key].column("offset").to_pylist()
        assert offsets == list(range(piece.copied.start, piece.copied.end)), "what is called copied is there"


def test_a_range_that_may_not_lose_anything_is_all_or_an_error(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 10)
    delete_below(connection, tp, 4)
    files = Files()
    wanted = RangeToCopy(tp=TopicPartition(tp.topic, 0), start=1, end=10, size_hint=1)
    for copying in (copy_range, copy_what_is_left):
        with pytest.raises(Damaged, match=r"offsets 1\.\.3 of .* are gone"):
            copying(connection, files, Layout("app"), wanted, compression_level=1, attempt="a")
    assert files.stored == {}


def test_a_copy_has_no_record_that_the_names_of_transactions_leave_out_and_is_not_stored_where_they_differ(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 10)
    out = Excluded(producer_id=1, epoch=2, first=4, last=5, records=2, aborted=False)
    names = NamedLogCut(start=3, end=10, records=5, excluded=(out,))
    wanted = RangeToCopy(tp=TopicPartition(tp.topic, 0), start=1, end=10, size_hint=1, names=names)
    for copying in (copy_range, lambda *how, **more: copy_what_is_left(*how, **more)().copied[0]):
        files = Files()
        piece = copying(connection, files, Layout("app"), wanted, compression_level=1, attempt="a").copied
        assert (piece.start, piece.end, piece.file.rows) == (1, 10, 7)
        assert files.stored[piece.file.key].column("offset").to_pylist() == [1, 2, 3, 6, 7, 8, 9]
        other, files = replace(wanted, names=replace(names, records=4)), Files()
        with pytest.raises(LookAgain, match="4 records of the cut and 2 others by their names, 5 and 2 by their offsets"):
            copying(connection, files, Layout("app"), other, compression_level=1, attempt="a")
        assert files.stored == {}


@pytest.mark.deep
def test_a_log_that_ends_early_is_damaged_and_not_short(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 3)
    with pytest.raises(Damaged, match="ends at 3, before 5"):
        read(connection, tp, 0, 5, stall_seconds=0.5)
    with pytest.raises(Damaged, match="ends at 3, before 4"):
        read(connection, tp, 4, 5, stall_seconds=0.5)


@pytest.mark.deep
def test_an_open_transaction_is_named_with_its_partition_and_position(connection, tp):
    write(connection, tp, [(1, None, b"v", None)] * 3)
    producer = transaction(connection, tp, [b"open"], commit=None)
    try:
        with pytest.raises(OffsetsUnstable) as caught:
            read(connection, tp, 0, 4, stall_seconds=0.5)
        facts = caught.value.facts
        assert (facts["topic"], facts["partition"], facts["position"], facts["end"], facts["last_stable"]) == (*tp, 3, 4, 3)
    finally:
        producer.abort_transaction()


@pytest.mark.deep
def test_nobody_at_the_address(monkeypatch):
    monkeypatch.setattr(reader_module, "ASK_SECONDS", 0.5)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        read(connect("127.0.0.1:1"), TopicPartition("none", 0), 0, 5)


@pytest.mark.deep
def test_a_topic_that_is_not_there(connection, monkeypatch):
    # A topic may be on its way, so the whole time is waited for: half of the usual one, and more than a busy broker needs for its first answer.
    monkeypatch.setattr(reader_module, "ASK_SECONDS", 5.0)
    with pytest.raises(NotFound):
        read(connection, TopicPartition("rows-that-never-were", 0), 0, 5)
    with pytest.raises(NotFound), PartitionWriter(Producers(connection), TopicPartition("rows-that-never-were", 0), expected_end=0):
        pass


@pytest.mark.deep
def test_batches_stay_small_when_large_records_follow_small_ones(connection, tp):
    small, large = [(1, None, b"s", None)] * 50_000, [(1, None, os.urandom(900_000), None) for _ in range(80)]
    write(connection, tp, small)
    write(connection, tp, large)
    sizes = [batch.nbytes for batch in read(connection, tp, 0, 50_080)]
    assert sum(sizes) > 70_000_000
    # What the client holds ready when a batch is taken bounds it; without a bound all 72 MB would be one.
    assert max(sizes) < 48 << 20


def written_with(connection, codec, tp, rows, *, expected=0):
    """Rows as compiled code writes them: it gives the lengths of the names of headers."""
    config = connection.client_config(**{"enable.idempotence": True, "linger.ms": 20, "compression.type": codec})
    sender = NativeSender(_tried_out(), config, print)
    send(sender, tp, batch_of(rows), expected)
    sender.close()


@pytest.mark.deep
@pytest.mark.fault("F93")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_header_whose_name_goes_on_behind_a_nul_is_refused_however_it_is_packed(connection, tp, codec):
    good = [(1, b"key%d" % number, b"value" * number, [("name", b"1"), ("name", None), ("other", b"")]) for number in range(300)]
    written_with(connection, codec, tp, good)
    assert rows_in(read(connection, tp, 0, 300)) == good
    written_with(connection, codec, tp, [good[0], (1, b"k", b"v", [("name", b"1"), ("na\0me", None)]), good[1]], expected=300)
    assert rows_in(read(connection, tp, 0, 301)) == [*good, good[0]], "what is behind the range is nobody's business"
    with pytest.raises(Refused, match=f"{tp}: the record at offset 301 has a header whose name has a NUL byte"):
        read(connection, tp, 0, 303)


@pytest.mark.fault("F93")
@pytest.mark.parametrize("bad", [False, True])
def test_of_a_record_with_thousands_of_headers_without_a_value_the_log_itself_is_asked(connection, tp, bad):
    headers = [(f"header-{number}", None) for number in range(8_000)] + [("na\0me", None)] * bad
    rows = [(1, b"k", b"v", None), (1, b"k", b"v", headers), (1, b"k", b"v", [("name", None)])]
    written_with(connection, "lz4", tp, rows)
    if not bad:
        assert rows_in(read(connection, tp, 0, 3)) == rows
        return
    with pytest.raises(Refused, match=f"{tp}: the record at offset 1 has a header whose name has a NUL byte"):
        read(connection, tp, 0, 3)


@pytest.mark.fault("F93")
def test_many_small_ranges_that_are_read_at_once_are_looked_at_too(connection):
    with topic(connection, partitions=3) as name:
        wanted = [OffsetRange(TopicPartition(name, number), 0, 2) for number in range(3)]
        for number, each in enumerate(wanted):
            header = ("na\0me" if number == 1 else "name", b"1")
            written_with(connection, "lz4", each.tp, [(1, b"k", b"v", None), (1, b"k", b"v", [header])])
        with Consumers(connection) as consumers:
            consumers.announce(wanted)
            assert [consumers.read_ahead(each) is not None for each in wanted] == [True, False, True]
            with (
                RangeReader(consumers, wanted[1].tp, 0, 2) as reader,
                pytest.raises(Refused, match="offset 1 has a header whose name has a NUL"),
            ):
                list(reader)
