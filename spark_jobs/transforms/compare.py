"""Verifying: what is in the topics against what is in the savepoint, row by row and key by key, for the partitions that a load has not proven."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.keyed_rows import fix_settings
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.read_back import digest_of_range
from spark_jobs.transforms.segment_reader import chosen_batches
from spark_jobs.transforms.state import ROWS, compare_states, newest_in
from spark_jobs.transforms.task_runner import at_once, in_tasks_sharing, spread_sharing, sql_session
from streams_recovery.core.jobs.spec import KeysVerified, PartitionToVerify, PartitionVerified, VerifyResult, VerifySpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.work import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streams_recovery.kafka.connection import KafkaConnection
    from streams_recovery.kafka.reader import Consumers


def compare_partitions(context: Tasks, spec: VerifySpec, access: JobAccess) -> VerifyResult:
    """Compare every partition of the spec as a sequence of rows, unless that is proven, and its keyed topics also as the state they stand for."""
    started = time.monotonic()

    @contextmanager
    def opened(mine: Sequence[PartitionToVerify]) -> Iterator[Callable[[PartitionToVerify], Callable[[], PartitionVerified]]]:
        with _consumers(mine, access) as consumers:
            yield partial(at_once, lambda wanted: compare_rows(wanted, access, consumers))

    unproven = [wanted for wanted in spec.partitions if not wanted.rows_proven]
    # Both sides are read.
    doing = Doing(name="comparing", records=2 * sum(map(_records, unproven)))
    partitions = spread_sharing(context, unproven, opened, PartitionVerified, _records, doing)
    keyed = [wanted for wanted in spec.partitions if wanted.tp.topic in spec.keyed]
    return VerifyResult(partitions=tuple(partitions), keys=_keys(keyed, access) if keyed else (), seconds=time.monotonic() - started)


def compare_rows(wanted: PartitionToVerify, access: JobAccess, source: KafkaConnection | Consumers) -> PartitionVerified:
    """Counts and digests of both sides of one partition. ``source`` is as for ``RangeReader``. Runs in a task."""
    from streams_recovery.segments.schema import RowDigest  # noqa: PLC0415  # kept with the code that reads Kafka

    archived = RowDigest()
    for batch in counted(chosen_batches(access.repository(), wanted.files, wanted.cut)):
        archived.update(batch)
    loaded = digest_of_range(source, _target(wanted), wanted.start, wanted.end)
    return PartitionVerified(
        tp=wanted.tp,
        topic_id=wanted.topic_id,
        start=wanted.start,
        end=wanted.end,
        archived_rows=archived.rows,
        loaded_rows=loaded.rows,
        archived_digest=archived.hexdigest(),
        loaded_digest=loaded.hexdigest(),
    )


def _keys(keyed: list[PartitionToVerify], access: JobAccess) -> tuple[KeysVerified, ...]:
    spark = sql_session()
    fix_settings(spark)
    archived, loaded = (_rows(spark, keyed, access, archive=archive) for archive in (True, False))
    return compare_states(archived, loaded, [wanted.tp for wanted in keyed])


def _rows(spark: SparkSession, partitions: list[PartitionToVerify], access: JobAccess, *, archive: bool) -> DataFrame:
    @contextmanager
    def opened(mine: Sequence[PartitionToVerify]) -> Iterator[Callable[[PartitionToVerify], Iterator[pa.RecordBatch]]]:
        with nullcontext() if archive else _consumers(mine, access) as consumers:
            yield lambda wanted: (_labelled(newest_in(batch), wanted) for batch in counted(_batches(wanted, access, consumers)))

    doing = Doing(name=f"comparing keys, {'archive' if archive else 'cluster'}", records=sum(map(_records, partitions)))
    return in_tasks_sharing(spark, partitions, opened, ROWS, _records, doing)


def _records(wanted: PartitionToVerify) -> int:
    return wanted.end - wanted.start


@contextmanager
def _consumers(mine: Sequence[PartitionToVerify], access: JobAccess) -> Iterator[Consumers]:
    """Open the consumers that the partitions of one task are read with."""
    from streams_recovery.kafka.reader import Consumers  # noqa: PLC0415  # the driver needs no Kafka client

    with Consumers(access.cluster) as consumers:
        consumers.announce(OffsetRange(_target(wanted), wanted.start, wanted.end) for wanted in mine)
        yield consumers


def _target(wanted: PartitionToVerify) -> TopicPartition:
    return TopicPartition(wanted.target_topic, wanted.tp.partition)


def _batches(wanted: PartitionToVerify, access: JobAccess, consumers: Consumers | None) -> Iterator[pa.RecordBatch]:
    """The rows of the topic; without consumers those of the archive."""
    if consumers is None:
        yield from chosen_batches(access.repository(), wanted.files, wanted.cut)
        return
    from streams_recovery.kafka.reader import RangeReader  # noqa: PLC0415  # as above

    with RangeReader(consumers, _target(wanted), wanted.start, wanted.end) as reader:
        yield from reader


def _labelled(batch: pa.RecordBatch, wanted: PartitionToVerify) -> pa.RecordBatch:
    rows = len(batch)
    labels = [pa.repeat(pa.scalar(wanted.tp.topic), rows), pa.repeat(pa.scalar(wanted.tp.partition, pa.int32()), rows)]
    names = ["offset", "key", "value", "timestamp", "headers"]
    return pa.record_batch([*labels, *(batch.column(name) for name in names)], names=["topic", "partition", *names])
