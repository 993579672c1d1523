"""A few records of a topic, as it is on the cluster now or in a savepoint."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage, SegmentFile
from streams_recovery.core.state.inspection import RecordsRequest, TopicRecord, first_offset
from streams_recovery.core.words import LIVE
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state.read import batches_in, chosen
from streams_recovery.storage.repository import Repository

_WIDER: Final = 10


def records_of(recovery: RecoveryContext, request: RecordsRequest) -> list[TopicRecord]:
    """The records that are wanted, partition after partition, in the order of offsets. Live ones are committed ones.

    Raises ``NotFound`` without such a savepoint, topic or partition, ``Refused`` for a topic whose records the savepoint does not have.
    """
    return _live(recovery, request) if request.savepoint == LIVE else _archived(recovery, request)


def _live(recovery: RecoveryContext, request: RecordsRequest) -> list[TopicRecord]:
    connection = recovery.connection
    found = recovery.cluster.describe_topics([request.topic]).get(request.topic)
    if found is None:
        raise NotFound(f"there is no topic {request.topic} on the cluster", next_step="check its name", topic=request.topic)
    logs = [TopicPartition(request.topic, number) for number in _wanted(request, list(range(found.partitions)))]
    starts, ends = recovery.cluster.log_starts(logs), recovery.cluster.last_stable_offsets(logs)
    return [record for tp in logs for record in _committed(connection, request, tp, starts[tp], ends[tp])]


def _committed(connection: KafkaConnection, request: RecordsRequest, tp: TopicPartition, start: int, end: int) -> list[TopicRecord]:
    """Offsets need not hold records, so the newest ones are looked for in a larger and larger part of the log."""
    span = request.count
    while True:
        begin = first_offset(start, end, request.offset, span)
        if begin >= end:
            return []
        with RangeReader(connection, tp, begin, end) as reader:
            records = _records(reader, tp, begin)
            if request.offset is not None:
                return list(itertools.islice(records, request.count))
            found = list(deque(records, request.count))
        if len(found) == request.count or begin == start:
            return found
        span *= _WIDER


def _archived(recovery: RecoveryContext, request: RecordsRequest) -> list[TopicRecord]:
    manifest = chosen(recovery, request.savepoint)
    topic = manifest.topic(request.topic)
    if topic is None:
        raise NotFound(
            f"savepoint {manifest.savepoint_id} has no topic {request.topic}; it has {', '.join(one.name for one in manifest.topics)}",
            next_step="choose one of those",
            topic=request.topic,
        )
    if not topic.archived:
        raise Refused(
            f"savepoint {manifest.savepoint_id} has no records of {topic.name}",
            next_step=f"look at the topic on the cluster with --savepoint {LIVE}",
            topic=topic.name,
        )
    images = {image.partition: image for image in topic.partitions}
    return [record for number in _wanted(request, sorted(images)) for record in _in_files(recovery.repository, request, images[number])]


def _in_files(repository: Repository, request: RecordsRequest, image: PartitionImage) -> list[TopicRecord]:
    tp, first = TopicPartition(request.topic, image.partition), request.offset
    files = list(image.files())
    files = _newest(files, request.count) if first is None else [file for file in files if file.last_offset >= first]
    records = _records(batches_in(repository, files), tp, first or 0)
    return list(deque(records, request.count)) if first is None else list(itertools.islice(records, request.count))


def _newest(files: list[SegmentFile], count: int) -> list[SegmentFile]:
    """The last files that have so many rows together."""
    rows, first = 0, len(files)
    while first and rows < count:
        first -= 1
        rows += files[first].rows
    return files[first:]


def _wanted(request: RecordsRequest, partitions: list[int]) -> list[int]:
    if request.partition is None:
        return partitions
    if request.partition not in partitions:
        raise NotFound(
            f"{request.topic} has no partition {request.partition}; it has {len(partitions)}",
            next_step="choose one of those",
            partition=request.partition,
        )
    return [request.partition]


def _records(batches: Iterator[pa.RecordBatch] | RangeReader, tp: TopicPartition, first: int) -> Iterator[TopicRecord]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value", "headers")]
        for offset, timestamp, key, value, headers in zip(*columns, strict=True):
            if offset >= first:
                yield TopicRecord(
                    topic=tp.topic,
                    partition=tp.partition,
                    offset=offset,
                    timestamp=timestamp,
                    key=key,
                    value=value,
                    headers=tuple((header["key"], header["value"]) for header in headers or ()),
                )
