"""Compiled sending does what sending of objects does: what is taken, what is told, and what is left."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from streams_recovery.core.waiting import poll
from streams_recovery.kafka.exact_producer import Delivered, PlainSender
from streams_recovery.kafka.native import librdkafka
from streams_recovery.kafka.native.librdkafka import native
from streams_recovery.kafka.native.writing import NativeSender
from streams_recovery.kafka.writer import PartitionWriter
from tests.support.examples.rows import batch_of
from tests.support.kafka.mock_cluster import mock_cluster, new_log, send

ROWS = [(1, b"k%d" % at, b"v" * at, [("h", None)] if at % 2 else None) for at in range(50)]


def plain(config, note):
    return PlainSender(config, note)


def compiled(config, note):
    return NativeSender(native(), config, note)


@pytest.fixture(scope="module")
def connection():
    with mock_cluster() as found:
        yield found


@pytest.fixture(params=[plain, compiled])
def opened(request, connection):
    """Makes a sender with these settings, and closes it at the end."""
    made = []

    def make(note=print, **settings):
        config = {**connection.client_config(**{"enable.idempotence": True, "linger.ms": 0}), **settings}
        made.append(request.param(config, note))
        return made[-1]

    yield make
    for sender in made:
        sender.close()


def handed_over(sender, tp, rows):
    return [(taken, error and error.code()) for taken, error in sender.send(tp, rows)]


def test_a_client_that_is_full_says_so_at_the_row_it_did_not_take(opened):
    sender = opened(**{"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 10})
    going = sender.send(new_log(), batch_of(ROWS))
    taken, error = next(going)
    assert (taken, error.code()) == (10, KafkaError._QUEUE_FULL)
    taken, error = next(going)
    assert (taken, error.code()) == (0, KafkaError._QUEUE_FULL), "the same row is tried again"
    sender.drop_waiting()
    taken, error = next(going)
    assert (taken, error.code()) == (10, KafkaError._QUEUE_FULL), "there is room for ten more"
    assert sender.delivered(0, 0) == Delivered(0), "and nothing is left of the first ten"


def test_a_record_that_is_too_large_is_not_taken(opened):
    sender = opened(**{"message.max.bytes": 1_000})
    taken, error = next(sender.send(new_log(), batch_of([ROWS[0], (1, None, b"x" * 2_000, None)]).slice(1)))
    assert (taken, error.code()) == (0, KafkaError.MSG_SIZE_TOO_LARGE)


def test_reports_are_counted_from_the_offset_that_is_expected(opened):
    sender, tp = opened(), new_log()
    send(sender, tp, batch_of(ROWS))
    send(sender, tp, batch_of(ROWS[:5]), expected=50)
    assert handed_over(sender, tp, batch_of(ROWS[:3]))[-1][1] is None
    found = sender.delivered(10, 54)
    assert (found.rows, found.failure, found.misplaced) == (0, None, 55)
    assert sender.delivered(0.1, 54).rows == 0, "what comes behind it does not count either"


def test_a_record_that_is_given_up_is_the_failure(opened):
    sender = opened(**{"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 200})
    assert handed_over(sender, new_log(), batch_of(ROWS[:3]))[-1][1] is None
    found = poll(lambda: told if (told := sender.delivered(0.1, 0)).failure is not None else None, seconds=20)
    assert (found.rows, found.misplaced) == (0, None)
    assert found.failure.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT)


def test_errors_that_are_about_no_record_are_noted(opened):
    noted = []
    sender = opened(noted.append, **{"bootstrap.servers": "127.0.0.1:1"})
    assert poll(lambda: sender.delivered(0.1, 0) == Delivered(0) and noted, seconds=20)
    assert noted[0].code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    assert noted[0].str()


def test_nothing_takes_no_time(opened):
    sender = opened()
    assert sum(taken for taken, _ in handed_over(sender, new_log(), batch_of([]))) == 0
    assert sender.delivered(0, 0) == Delivered(0)


def test_a_batch_of_other_columns_is_not_looked_into(connection):
    sender = compiled(connection.client_config(), print)
    try:
        with pytest.raises(TypeError, match="no rows of a segment"):
            next(sender.send(new_log(), pa.record_batch({"key": [1]})))
    finally:
        sender.close()


def test_a_client_that_broke_down_says_why_at_the_next_row(connection):
    sender = compiled(connection.client_config(**{"enable.idempotence": True, "enable.gapless.guarantee": True, "linger.ms": 0}), print)
    try:
        break_down = librdkafka._librdkafka().rd_kafka_test_fatal_error
        break_down(ctypes.c_void_p(sender._client), KafkaError._GAPLESS_GUARANTEE, b"in its own words")
        _, error = next(sender.send(new_log(), batch_of(ROWS)))
        # Its code is not that of a record: whoever writes has to take the reports of what was sent before, and is told then.
        assert (error.code(), error.str()) == (KafkaError._FATAL, "test_fatal_error: in its own words")
        found = sender.delivered(10, 0)
        assert (found.failure.code(), found.failure.str()) == (KafkaError._GAPLESS_GUARANTEE, "test_fatal_error: in its own words")
    finally:
        sender.close()


def test_a_sender_that_was_closed_says_so(connection):
    sender = compiled(connection.client_config(), print)
    sender.close()
    for use in (lambda: sender.delivered(0, 0), sender.drop_waiting, lambda: next(sender.send(new_log(), batch_of(ROWS)))):
        with pytest.raises(RuntimeError, match="was closed"):
            use()


def test_a_writer_that_leaves_records_waiting_leaves_its_producer_to_nobody(opened):
    forgotten = []
    sender = opened(**{"bootstrap.servers": "127.0.0.1:1"})
    cluster = SimpleNamespace(high_watermarks=lambda partitions: dict.fromkeys(partitions, 0), max_message_bytes=lambda _: 1_000)
    producers = SimpleNamespace(cluster=cluster, taking=lambda _: sender, forget=forgotten.append)
    with PartitionWriter(producers, new_log(), expected_end=0) as writer:
        writer.write(batch_of(ROWS[:3]))
    assert forgotten == [1_000]
