"""Records and topics for tests that need a broker."""

from __future__ import annotations

import uuid
from contextlib import contextmanager

import pyarrow as pa

from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.producers import Producers
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.writer import PartitionWriter
from streams_recovery.segments.schema import SEGMENT_SCHEMA, RowDigest, header_array

# Every way in which null and empty, order and repetition can be confused.
SHAPES = [
    (1_700_000_000_000, None, b"v", [("", b"x"), ("ü", b"y")]),
    (1, None, None, None),
    (2**62, b"", b"", [("a", None), ("a", b""), ("b", b"\xff")]),
    (5, b"k", None, None),
    (4, b"k", b"", [("z", b"1"), ("a", b"2"), ("z", b"1")]),
    (3, b"k" * 3000, b"v" * 300_000, None),
]


def batch_of(rows, start=0):
    """Rows of (timestamp, key, value, headers) with offsets from ``start`` on."""
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    return pa.record_batch(
        [
            pa.array(range(start, start + len(rows)), pa.int64()),
            pa.array(columns[0], pa.int64()),
            pa.array([0] * len(rows), pa.int8()),
            pa.array(columns[1], pa.binary()),
            pa.array(columns[2], pa.binary()),
            header_array(columns[3]),
        ],
        schema=SEGMENT_SCHEMA,
    )


def rows_in(batches):
    """The inverse of ``batch_of``."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [
        (row["timestamp"], row["key"], row["value"], row["headers"] and [(each["key"], each["value"]) for each in row["headers"]])
        for row in rows
    ]


def digest_of(rows):
    """As the tasks of a job make it."""
    digest = RowDigest()
    digest.update(batch_of(rows))
    return digest.hexdigest()


def connect(bootstrap):
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
    with KafkaCluster(connection) as cluster:
        return cluster.high_watermarks([tp])[tp]


def write(connection, tp, rows):
    with PartitionWriter(Producers(connection), tp, expected_end=end_of(connection, tp)) as writer:
        writer.write(batch_of(rows))
        return writer.finish()


def read(connection, tp, start, end, **options):
    with RangeReader(connection, tp, start, end, **options) as reader:
        return list(reader)
