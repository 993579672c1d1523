"""A cluster inside this process: librdkafka's own mock of brokers. It knows topics, records and fetches, and nothing that an admin asks for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from confluent_kafka import Producer

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.work import OffsetRange
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.exact_producer import Sender
from streams_recovery.kafka.range_consumer import Arrived, RangeClient


@contextmanager
def mock_cluster() -> Iterator[KafkaConnection]:
    """A connection to one broker, gone at the end."""
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    brokers = host.list_topics(timeout=10).brokers.values()
    yield KafkaConnection(bootstrap_servers=",".join(f"{one.host}:{one.port}" for one in brokers), properties={})
    del host


def new_log() -> TopicPartition:
    """The only partition of a topic that exists as soon as it is written to."""
    return TopicPartition(f"t{uuid.uuid4().hex[:10]}", 0)


def send(sender: Sender, tp: TopicPartition, rows: pa.RecordBatch, expected: int = 0) -> None:
    """Write rows, all of which have to be taken and delivered from the offset ``expected`` on."""
    sent = 0
    for taken, error in sender.send(tp, rows):
        assert error is None
        sent += taken
    assert sent == len(rows)
    reported = 0
    while reported < sent:
        found = sender.delivered(10, expected + reported)
        assert (found.failure, found.misplaced) == (None, None)
        assert found.rows, "no report within ten seconds"
        reported += found.rows


def arrivals(client: RangeClient, wanted: OffsetRange) -> list[Arrived]:
    """All that arrives of a range until its last offset was handed over: every offset of such a log is a record. A log keeps five megabytes."""
    client.assign([wanted])
    found: list[Arrived] = []
    give_up = time.monotonic() + 30
    while client.positions([wanted.tp])[wanted.tp] < wanted.end:
        found.append(client.arrived(wanted, 20_000))
        assert time.monotonic() < give_up, [each.error.str() for one in found for each in one.errors]
    return found


def table(found: list[Arrived]) -> pa.Table:
    """The records of a range in one piece each column, so that two of them are equal when their rows are."""
    return pa.Table.from_batches([batch for one in found for batch in one.batches]).combine_chunks()
