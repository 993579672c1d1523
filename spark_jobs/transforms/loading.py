"""Restoring: segments become records, one task a partition, in order."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

from spark_jobs.access import Access
from spark_jobs.transforms.archive import archived_batches
from spark_jobs.transforms.spread import spread
from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs import PartitionLoaded, PartitionToLoad, RestoreResult, RestoreSpec
from streams_recovery.core.model import TopicPartition


def load_partitions(spark: SparkSession, spec: RestoreSpec, access: Access) -> RestoreResult:
    """Load every partition, the biggest first. Refuses before the first row when a timestamp could not be written, or Spark would retry a task:
    a retry would write behind the rows of the attempt before it, so it is for the orchestrator, which creates the topics again.
    """
    started = time.monotonic()
    check_single_attempt(spark)
    check_writable(spec)

    def work(wanted: PartitionToLoad) -> PartitionLoaded:
        return load_partition(wanted, access)

    loaded = spread(spark, sorted(spec.partitions, key=_size, reverse=True), work, PartitionLoaded)
    found = {TopicPartition(done.topic, done.partition): done for done in loaded}
    ordered = tuple(found[TopicPartition(wanted.topic, wanted.partition)] for wanted in spec.partitions)
    return RestoreResult(partitions=ordered, seconds=time.monotonic() - started)


def check_single_attempt(spark: SparkSession) -> None:
    """Raises ``Refused`` when Spark may start a task twice by itself. Local masters never do."""
    context = spark.sparkContext
    if not str(context.master).startswith("local[") and context.getConf().get("spark.task.maxFailures", "4") != "1":
        raise Refused("spark.task.maxFailures is not 1: a task could be started again", next_step="set spark.task.maxFailures=1")


def check_writable(spec: RestoreSpec) -> None:
    """Raises ``Refused`` naming the first file with a timestamp that a producer would not write as it is."""
    for wanted in spec.partitions:
        for file in wanted.files:
            if file.min_timestamp <= 0:
                raise Refused(
                    f"{wanted.topic}-{wanted.partition}: {file.key} has a record with timestamp {file.min_timestamp}, which cannot be "
                    "written as it is: only timestamps above 0 can",
                    next_step="restore without this topic, or rebuild it from its inputs",
                    topic=wanted.topic,
                    partition=wanted.partition,
                    key=file.key,
                )


def load_partition(wanted: PartitionToLoad, access: Access) -> PartitionLoaded:
    """Write the files of one partition. Runs in a task."""
    from streams_recovery.kafka.copying import worker_name  # noqa: PLC0415  # the driver needs no Kafka client
    from streams_recovery.kafka.writer import PartitionWriter  # noqa: PLC0415

    tp = TopicPartition(wanted.topic, wanted.partition)
    with PartitionWriter(access.connection, tp, expected_end=wanted.first_offset) as writer:
        for batch in archived_batches(access.repository(), wanted.files):
            writer.write(batch)
        written = writer.finish()
    return PartitionLoaded(
        topic=wanted.topic,
        partition=wanted.partition,
        rows=written.rows,
        acknowledged_first=written.first,
        acknowledged_last=written.last,
        worker=worker_name(),
    )


def _size(wanted: PartitionToLoad) -> int:
    return sum(file.payload_bytes for file in wanted.files)
