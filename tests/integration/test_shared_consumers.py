"""Ranges that share consumers, read one after the other or many at once: each comes out as if it had been read by itself, whatever its neighbours are."""

from __future__ import annotations

import itertools
import os
import random
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged, NotFound, OffsetsUnstable
from streams_recovery.core.jobs.spec import RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.waiting import poll
from streams_recovery.core.work import OffsetRange
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.range_consumer import RangeClient, ReadingClient, size_of
from streams_recovery.kafka.range_copy import announce, copy_what_is_left
from streams_recovery.kafka.reader import MOST_BYTES, Consumers, RangeReader, read_at_once
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import end_of, read, topic

pytestmark = pytest.mark.kafka


@pytest.fixture
def logs(connection):
    """Makes a topic with so many partitions."""
    with ExitStack() as stack:
        yield lambda partitions, **config: [
            TopicPartition(name, number)
            for name in [stack.enter_context(topic(connection, partitions, **config))]
            for number in range(partitions)
        ]


@pytest.fixture
def made(monkeypatch):
    """The clients that were made, of either kind."""
    clients, make = [], RangeClient.__init__

    def counted(client, *arguments):
        make(client, *arguments)
        clients.append(client)

    monkeypatch.setattr(RangeClient, "__init__", counted)
    return clients


def fill(connection, counts, size=0):
    """That many records for each partition, each with its number as key."""
    producer = Producer(connection.client_config(**{"queue.buffering.max.kbytes": 1 << 20, "message.max.bytes": 2 << 20}))
    for tp, count in counts.items():
        for number in range(count):
            producer.produce(tp.topic, os.urandom(size), b"%d" % number, tp.partition, timestamp=1 + number)
    assert producer.flush(60) == 0


def transaction(connection, tp, keys, *, commit):
    producer = Producer(connection.client_config(**{"transactional.id": f"{tp.topic}-{os.urandom(4).hex()}"}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for key in keys:
        producer.produce(tp.topic, b"v", key, tp.partition)
    assert producer.flush(30) == 0
    if commit is None:
        return producer
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    return None


def delete_below(connection, tp, offset):
    with Clients(connection, timeout=10) as clients:
        for future in clients.librdkafka.delete_records([ClientPartition(tp.topic, tp.partition, offset)]).values():
            future.result()


def ended(connection, tp, end):
    """Wait for a transaction's marker: the answer to its end comes before."""
    assert poll(lambda: end_of(connection, tp) == end or None, seconds=30)


def keys(batches):
    return [row[1] for row in rows_in(batches)]


@pytest.mark.deep
@pytest.mark.parametrize("announced", [True, False])
def test_two_hundred_small_ranges_need_one_consumer(connection, logs, made, announced):
    counts = {tp: tp.partition % 3 for tp in logs(200)}
    fill(connection, counts)
    wanted = [OffsetRange(tp, 0, count) for tp, count in counts.items()]
    with Consumers(connection) as consumers:
        if announced:
            consumers.announce(wanted)
        for each in wanted if announced else wanted[:30]:
            with RangeReader(consumers, *each) as reader:
                assert keys(reader) == [b"%d" % number for number in range(each.end)]
                assert (reader.position, reader.fetched) == (each.end, each.end)
    assert len(made) == 1


def test_a_partition_is_read_again_from_any_offset(connection, logs, made):
    (tp,) = logs(1)
    fill(connection, {tp: 20})
    with Consumers(connection) as consumers:
        for start, end in ((0, 20), (0, 5), (5, 12), (3, 4), (0, 20)):
            with RangeReader(consumers, tp, start, end) as reader:
                assert keys(reader) == [b"%d" % number for number in range(start, end)]
                assert reader.fetched >= end - start
    assert len(made) == 5


@pytest.mark.deep
@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_wrong_with_one_range_is_told_of_it_and_costs_the_others_nothing(connection, logs, seed, announced):
    plain, deleted, open_, aborted, marker, early, empty = logs(7)
    fill(connection, {plain: 7, deleted: 10, open_: 2, early: 3, empty: 1})
    delete_below(connection, deleted, 4)
    transaction(connection, aborted, [b"yes"], commit=True)
    transaction(connection, aborted, [b"no"] * 50, commit=False)
    transaction(connection, marker, [b"only"], commit=True)
    ended(connection, aborted, 2 + 51)
    ended(connection, marker, 2)
    hanging = transaction(connection, open_, [b"undecided"], commit=None)
    good = {
        OffsetRange(plain, 1, 6): [b"1", b"2", b"3", b"4", b"5"],
        OffsetRange(deleted, 4, 10): [b"4", b"5", b"6", b"7", b"8", b"9"],
        OffsetRange(aborted, 0, 53): [b"yes"],
        OffsetRange(marker, 1, 2): [],
        OffsetRange(empty, 1, 1): [],
        OffsetRange(open_, 0, 2): [b"0", b"1"],
    }
    bad = {
        OffsetRange(deleted, 2, 8): (Damaged, rf"offsets 2\.\.3 of {deleted} are gone"),
        OffsetRange(open_, 0, 3): (OffsetsUnstable, rf"{open_} stands at 2, short of 3"),
        OffsetRange(early, 0, 5): (Damaged, rf"{early} ends at 3, before 5"),
        OffsetRange(TopicPartition("rows-that-never-were", 0), 0, 1): (NotFound, "rows-that-never-were"),
    }
    wanted = [*good, *bad]
    random.Random(seed).shuffle(wanted)
    try:
        with Consumers(connection) as consumers:
            if announced:
                consumers.announce(wanted)
            for each in wanted:
                with RangeReader(consumers, *each, stall_seconds=0.5) as reader:
                    if each in good:
                        assert keys(reader) == good[each], each
                        assert (reader.position, reader.log_start()) == (each.end, 4 if each.tp == deleted else 0)
                        continue
                    kind, text = bad[each]
                    with pytest.raises(kind, match=text):
                        list(reader)
    finally:
        hanging.abort_transaction(30)


def test_a_bad_range_spoils_no_neighbour_that_is_read_at_once_with_it(connection, logs, made):
    partitions = logs(12)
    fill(connection, dict.fromkeys(partitions, 3))
    gone, aborted, hanging_in = partitions[3], partitions[5], partitions[8]
    delete_below(connection, gone, 2)
    transaction(connection, aborted, [b"no"] * 20, commit=False)
    ended(connection, aborted, 3 + 21)
    hanging = transaction(connection, hanging_in, [b"undecided"], commit=None)
    ends = {hanging_in: 4, aborted: 24}
    group = [OffsetRange(tp, 0, ends.get(tp, 3)) for tp in partitions]
    client = ReadingClient(connection, 64)
    try:
        with KafkaCluster(connection) as cluster:
            found = read_at_once(client, cluster, group, quiet_seconds=0.3)
    finally:
        client.close()
        hanging.abort_transaction(30)
    assert found.keys() == {each for each in group if each.tp not in (gone, hanging_in)}
    assert {(tuple(keys(read.batches())), read.log_start) for read in found.values()} == {((b"0", b"1", b"2"), 0)}
    assert {read.received for each, read in found.items() if each.tp != aborted} == {3}


@pytest.fixture(scope="module")
def mixed(connection):
    """Logs of records, markers, aborted records and deleted ones, and their ends."""
    with topic(connection, 4) as name:
        partitions = [TopicPartition(name, number) for number in range(4)]
        for tp, commits in zip(partitions, ((True,), (False, True, False), (), (True, False)), strict=True):
            fill(connection, {tp: 9})
            for commit in commits:
                transaction(connection, tp, [b"t%d" % number for number in range(6)], commit=commit)
        ends = {tp: 9 + 7 * count for tp, count in zip(partitions, (1, 3, 0, 2), strict=True)}
        for tp, end in ends.items():
            ended(connection, tp, end)
        alone = {tp: read(connection, tp, 0, end) for tp, end in ends.items()}
        yield (
            ends,
            {tp: [(offset, row[1]) for offset, row in zip(offsets(found), rows_in(found), strict=True)] for tp, found in alone.items()},
        )


def offsets(batches):
    return list(itertools.chain.from_iterable(batch.column("offset").to_pylist() for batch in batches))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_ranges_in_any_order_are_what_each_is_alone(connection, mixed, data):
    ends, records = mixed
    some = st.sampled_from(sorted(ends)).flatmap(
        lambda tp: st.tuples(st.integers(0, ends[tp]), st.integers(0, ends[tp])).map(lambda pair: OffsetRange(tp, min(pair), max(pair)))
    )
    wanted = data.draw(st.lists(some, max_size=8))
    told = data.draw(st.lists(st.sampled_from(wanted), unique=True) if wanted else st.just([]))
    with Consumers(connection) as consumers:
        consumers.announce(told)
        for each in wanted:
            with RangeReader(consumers, *each) as reader:
                found = list(reader)
                inside = [record for record in records[each.tp] if each.start <= record[0] < each.end]
                assert list(zip(offsets(found), [row[1] for row in rows_in(found)], strict=True)) == inside
                assert reader.fetched >= len(inside)


@pytest.mark.deep
def test_large_records_beside_small_ones_do_not_fill_the_memory(connection, logs):
    partitions = logs(60, max_message_bytes=2 << 20)
    counts = {tp: 3 if tp.partition % 2 else 1 for tp in partitions}
    fill(connection, {tp: count for tp, count in counts.items() if count == 1})
    fill(connection, {tp: count for tp, count in counts.items() if count == 3}, size=1_000_000)
    group = [OffsetRange(tp, 0, count) for tp, count in counts.items()]
    client = ReadingClient(connection, 64)
    with KafkaCluster(connection) as cluster:
        found = read_at_once(client, cluster, group)
    client.close()
    held = sum(size_of(message) for each in found.values() for message in each.messages)
    # 90 MB in all; beyond the limit goes what the client held when it was reached.
    assert held < MOST_BYTES + (32 << 20)
    with Consumers(connection) as consumers:
        consumers.announce(group)
        for each in group:
            with RangeReader(consumers, *each) as reader:
                assert keys(reader) == [b"%d" % number for number in range(each.end)]
                assert each.end <= reader.fetched


class Files:
    """A place for segments."""

    def __init__(self):
        self.stored = []

    def put_file(self, key, path):
        self.stored.append((key, path.stat().st_size))


def test_copies_that_share_a_consumer_lose_only_what_is_gone(connection, logs):
    partitions = logs(5)
    fill(connection, dict.fromkeys(partitions, 6))
    delete_below(connection, partitions[2], 4)
    wanted = [RangeToCopy(tp=tp, start=1, end=6, size_hint=5, may_lose=True) for tp in partitions]
    files = Files()
    with Consumers(connection) as consumers:
        announce(consumers, wanted)
        outcomes = [copy_what_is_left(consumers, files, Layout("app"), each, compression_level=1, attempt="a")() for each in wanted]
    copied = [
        [(piece.copied.start, piece.copied.end, piece.copied.file.rows, piece.fetched >= piece.copied.file.rows) for piece in o.copied]
        for o in outcomes
    ]
    assert copied == [[(1, 6, 5, True)], [(1, 6, 5, True)], [(4, 6, 2, True)], [(1, 6, 5, True)], [(1, 6, 5, True)]]
    assert [[(piece.start, piece.end) for piece in outcome.lost] for outcome in outcomes] == [[], [], [(1, 4)], [], []]
    assert [outcome.copied[0].log_start_after for outcome in outcomes] == [0, 0, 4, 0, 0]
    assert len(files.stored) == 5
