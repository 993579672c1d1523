"""Logs that the broker's log cleaner comes to at once, and the proof that it came and passed by all others."""

from __future__ import annotations

import os
import time
import uuid

from confluent_kafka import Producer

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.operations.context import RecoveryContext
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import read

# A segment each fifth of a second of event time, and the cleaner comes for any of them at once.
EAGER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "200", "delete.retention.ms": "0"}
KEYS, ROWS = 5, 600


def updated(recovery: RecoveryContext, tp: TopicPartition) -> None:
    """Many updates of few keys: several megabytes, so that they come in several batches, over six seconds of event time."""
    producer = Producer({**recovery.connection.client_config(), "linger.ms": 1000})
    # Later than what is there: a segment ends by the distance to its first record.
    began = time.time_ns() // 1_000_000 + 1_000
    for number in range(ROWS):
        producer.produce(tp.topic, os.urandom(4_000), b"k%d" % (number % KEYS), tp.partition, timestamp=began + number * 10)
    assert producer.flush(60) == 0


def await_cleaner(recovery: RecoveryContext) -> None:
    """Return when the cleaner has passed by every log that it had not cleaned and may not clean.

    It has one thread, which takes the log with the largest part of records not cleaned yet. So it is given a log of its own, twice: the second
    time a part of this one is clean, and any log that was never cleaned, if it could be, came first.
    """
    own = TopicPartition(f"unheld{uuid.uuid4().hex[:8]}", 0)
    recovery.cluster.create_topic(own.topic, partitions=1, replication_factor=1, config=EAGER)
    for _ in range(2):
        start = recovery.cluster.high_watermarks([own])[own]
        updated(recovery, own)
        end = recovery.cluster.high_watermarks([own])[own]
        assert poll(lambda start=start, end=end: _is_cleaned(recovery, own, start, end), seconds=120, interval=0.5)
    recovery.cluster.delete_topics([own.topic])


def _is_cleaned(recovery: RecoveryContext, tp: TopicPartition, start: int, end: int) -> bool | None:
    return len(rows_in(read(recovery.connection, tp, start, end))) < (end - start) // 2 or None
