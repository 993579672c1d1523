"""When the first record at or behind an offset was made. One consumer for all partitions, for a short time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.read_ahead import OffsetRange, read_groups
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.deadline import Deadline
from streams_recovery.kafka.range_consumer import ReadingClient, partition_of, size_class

_ROWS_AT_ONCE = 1_000


def first_timestamps(connection: KafkaConnection, offsets: Mapping[TopicPartition, int], *, seconds: float) -> dict[TopicPartition, int]:
    """The timestamp (ms) of the first committed record at or behind each offset. Partitions that have none, may not be read, or did not answer within
    ``seconds`` are left out. Raises ``ConfigInvalid`` when the client does not take the connection's settings, ``TransientError`` when it fails.
    """
    found: dict[TopicPartition, int] = {}
    deadline = Deadline(seconds)
    client = ReadingClient(connection, size_class(1))
    try:
        for group in read_groups(OffsetRange(tp, offset, offset + 1) for tp, offset in offsets.items()):
            found |= _read(client, group, deadline)
    finally:
        client.close()
    return found


def _read(client: ReadingClient, ranges: Collection[OffsetRange], deadline: Deadline) -> dict[TopicPartition, int]:
    pending = {each.tp for each in ranges}
    found: dict[TopicPartition, int] = {}
    client.assign(ranges)
    while pending and deadline.remaining:
        answered: set[TopicPartition] = set()
        for message in client.consume(_ROWS_AT_ONCE, f"reading the first record of {len(pending)} partitions"):
            tp = partition_of(message)
            if tp is None or tp not in pending:
                continue
            pending.remove(tp)
            answered.add(tp)
            kind, timestamp = message.timestamp()
            # An error is the end of the log, or whatever keeps the partition from being read.
            if message.error() is None and kind != TIMESTAMP_NOT_AVAILABLE:
                found[tp] = timestamp
        if answered:
            client.pause(answered)
    return found
