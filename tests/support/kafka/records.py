"""Records and topics for tests that need a broker."""

from __future__ import annotations

import uuid
from contextlib import contextmanager

from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.writer import PartitionWriter, Producers
from tests.support.examples.rows import batch_of


def connect(bootstrap):
    """A connection without settings."""
    return KafkaConnection(bootstrap_servers=bootstrap, properties={})


@contextmanager
def topic(connection, partitions=1, **config):
    """A topic of a new name that keeps what it is given, gone at the end."""
    name = f"rows-{uuid.uuid4().hex[:12]}"
    with KafkaCluster(connection) as cluster:
        settings = {**restore_hold({}), **{key.replace("_", "."): value for key, value in config.items()}}
        cluster.create_topic(name, partitions=partitions, replication_factor=1, config=settings)
        try:
            yield name
        finally:
            cluster.delete_topics([name])


def end_of(connection, tp):
    """A partition's high watermark."""
    with KafkaCluster(connection) as cluster:
        return cluster.high_watermarks([tp])[tp]


def write(connection, tp, rows):
    """Append rows, and return what the writer reports."""
    with PartitionWriter(Producers(connection), tp, expected_end=end_of(connection, tp)) as writer:
        writer.write(batch_of(rows))
        return writer.finish()


def read(connection, tp, start, end, **options):
    """The batches of ``[start, end)``."""
    with RangeReader(connection, tp, start, end, **options) as reader:
        return list(reader)
