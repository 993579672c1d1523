"""Inputs whose records have timestamps of the test's choice."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Producer

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.operations.context import RecoveryContext

# Event times, in milliseconds after this; offsets are their places in the list.
ZERO = 1_790_000_000_000


FIRST, SECOND = [10, 20, 20, 50], [30, 40, 40, 60]


def stamped(recovery: RecoveryContext, tp: TopicPartition, stamps: Sequence[int]) -> None:
    """Append records with these times, in milliseconds after ``ZERO``."""
    producer = Producer(recovery.connection.client_config())
    for at in stamps:
        producer.produce(tp.topic, b"at %d" % at, b"k", tp.partition, timestamp=ZERO + at)
    assert producer.flush(30) == 0


def fresh(recovery: RecoveryContext, tp: TopicPartition) -> None:
    """Another topic of this name, which keeps records as old as these."""
    recovery.cluster.delete_topics([tp.topic])
    recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
