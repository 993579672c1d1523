"""Reading and writing while the broker stands still or cleans: on a broker of our own, which others may not miss."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from streams_recovery.core.errors import BrokerUnavailable
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import reader as reader_module
from streams_recovery.kafka import reader as stalls
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.writer import PartitionWriter, Producers
from tests.support.examples.rows import batch_of, rows_in
from tests.support.kafka.records import connect, end_of, read, topic, write

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("way")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    from embedded.broker import start_broker
    from embedded.ports import free_ports
    from embedded.processes import Processes

    directory = tmp_path_factory.mktemp("broker")
    with Processes(directory) as processes:
        port, controller = free_ports(2)
        address = start_broker(processes, directory / "broker", port=port, controller_port=controller)
        yield address, processes.recorded()["broker"][0]


@pytest.fixture
def connection(broker):
    return connect(broker[0])


@contextmanager
def frozen(broker):
    os.kill(broker[1], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker[1], signal.SIGCONT)


def rows_numbered(first, last):
    return [(1, b"%d" % number, b"v" * 100, None) for number in range(first, last)]


@pytest.mark.deep
@pytest.mark.fault("F5", "F30")
def test_a_broker_that_stops_in_the_midst_of_records_without_a_time_writes_each_of_them_once(broker, connection, tp):
    rows = [(0, b"%d" % number, os.urandom(1000), None) for number in range(30_000)]
    with PartitionWriter(Producers(connection), tp, expected_end=0) as writer:
        writer.write(batch_of(rows[:10]))
        stopping = threading.Thread(target=freeze, args=(broker, 2))
        stopping.start()
        writer.write(batch_of(rows[10:]))
        stopping.join()
        assert writer.finish().rows == len(rows)
    assert rows_in(read(connection, tp, 0, len(rows))) == rows


@pytest.mark.fault("F6", "F30")
def test_a_broker_that_stays_still_ends_the_writing_of_records_without_a_time(broker, connection, tp):
    with PartitionWriter(Producers(connection), tp, expected_end=0, stall_seconds=1) as writer:
        writer.write(batch_of([(0, None, b"taken", None)]))
        with frozen(broker), pytest.raises(BrokerUnavailable) as caught:
            writer.write(batch_of([(0, None, b"waits", None)] * 3))
        assert (caught.value.facts["acknowledged"], caught.value.facts["waiting"]) == (1, 3)


def freeze(broker, seconds):
    time.sleep(0.2)
    with frozen(broker):
        time.sleep(seconds)


@pytest.mark.deep
@pytest.mark.fault("F5")
def test_a_broker_that_stands_still_for_a_while_costs_no_row_and_no_order(broker, connection, tp):
    with PartitionWriter(Producers(connection), tp, expected_end=0) as writer:
        writer.write(batch_of(rows_numbered(0, 20_000)))
        with frozen(broker):
            writer.write(batch_of(rows_numbered(20_000, 40_000)))
            time.sleep(4)
        writer.write(batch_of(rows_numbered(40_000, 50_000)))
        assert writer.finish().rows == 50_000
    assert rows_in(read(connection, tp, 0, 50_000)) == rows_numbered(0, 50_000)


@pytest.mark.fault("F6")
def test_a_broker_that_stays_still_ends_the_writer_and_nothing_is_claimed(broker, connection, tp):
    with PartitionWriter(Producers(connection), tp, expected_end=0, stall_seconds=1) as writer, frozen(broker):
        writer.write(batch_of(rows_numbered(0, 3)))
        with pytest.raises(BrokerUnavailable) as caught:
            writer.finish()
        assert (caught.value.facts["brokers"], caught.value.facts["seconds"], caught.value.facts["waiting"]) == (
            connection.bootstrap_servers,
            1,
            3,
        )


@pytest.mark.deep
def test_more_than_may_wait_in_memory_blocks_the_writer_until_it_gives_up(broker, connection, tp):
    batch = batch_of([(1, None, os.urandom(1_000_000), None)])
    # Long enough for a busy machine to take what fits.
    with PartitionWriter(Producers(connection), tp, expected_end=0, stall_seconds=8) as writer, frozen(broker):
        for _ in range(100):
            writer.write(batch)
        with pytest.raises(BrokerUnavailable):
            write_all(writer, [batch] * 50)


def write_all(writer, batches):
    for batch in batches:
        writer.write(batch)


@pytest.mark.deep
@pytest.mark.fault("F6")
def test_a_broker_that_stays_still_ends_the_reader(broker, connection, tp, monkeypatch):
    monkeypatch.setattr(stalls, "ASK_SECONDS", 1.0)
    monkeypatch.setattr(reader_module, "ASK_SECONDS", 1.0)
    rows = [(1, None, os.urandom(1000), None) for _ in range(60_000)]
    write(connection, tp, rows)
    with RangeReader(connection, tp, 0, 60_000, stall_seconds=1) as reader:
        batches = iter(reader)
        next(batches)
        with frozen(broker), pytest.raises(BrokerUnavailable) as caught:
            list(batches)
    facts = caught.value.facts
    assert (facts["topic"], facts["partition"], facts["end"], facts["seconds"]) == (*tp, 60_000, 1)
    assert facts["position"] < 60_000


@pytest.mark.deep
@pytest.mark.fault("F5")
def test_a_broker_that_stands_still_for_a_while_costs_the_reader_nothing(broker, connection, tp):
    rows = [(1, None, b"%d" % number + b"x" * 1000, None) for number in range(60_000)]
    write(connection, tp, rows)
    with RangeReader(connection, tp, 0, 60_000) as reader:
        batches = iter(reader)
        found = [next(batches)]
        with frozen(broker):
            resume = threading.Timer(3, os.kill, (broker[1], signal.SIGCONT))
            resume.start()
            found.extend(batches)
            resume.join()
    assert rows_in(found) == rows


@pytest.mark.deep
@pytest.mark.fault("F24")
def test_compacted_away_records_leave_no_gap_in_the_range(connection):
    config = {"cleanup_policy": "compact", "min_compaction_lag_ms": "0", "min_cleanable_dirty_ratio": "0.001", "segment_ms": "200"}
    with topic(connection, **config) as name:
        tp = TopicPartition(name, 0)
        now = int(time.time() * 1000)
        write(connection, tp, [(now + number, b"%d" % (number % 7), b"%d" % number, None) for number in range(1000)])
        time.sleep(0.5)
        write(connection, tp, [(now + 2000, b"roll", b"1", None)])  # the active segment is never cleaned
        time.sleep(0.5)
        write(connection, tp, [(now + 3000, b"roll", b"2", None)])
        give_up = time.monotonic() + 60
        while len(found := rows_in(read(connection, tp, 0, 1001))) > 8 and time.monotonic() < give_up:
            time.sleep(0.5)
        end = end_of(connection, tp)
        assert {row[1]: row[2] for row in found if row[1] != b"roll"} == {b"%d" % (n % 7): b"%d" % n for n in range(993, 1000)}
        assert len(found) <= 8
        with RangeReader(connection, tp, 0, 900) as reader:
            assert list(reader) == []  # everything below is compacted away, and the range ends all the same
            assert reader.position == 900
        assert len(rows_in(read(connection, tp, 10, end))) >= 8
