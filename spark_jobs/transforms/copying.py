"""Backing up: ranges become segments."""

from __future__ import annotations

import time
import uuid

from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark_jobs.access import Access
from spark_jobs.transforms.spread import spread
from streams_recovery.core.jobs import BackupResult, BackupSpec, RangeCopied, RangeToCopy
from streams_recovery.core.layout import Layout


def copy_ranges(spark: SparkSession, spec: BackupSpec, access: Access) -> BackupResult:
    """Copy every range, one task each, the biggest first so that no straggler is left for the end. Results are in the order of the spec."""
    started = time.monotonic()
    layout = Layout(spec.application_id)

    def work(wanted: RangeToCopy) -> RangeCopied:
        # Imported in the task: the driver needs no Kafka client.
        from streams_recovery.kafka.copying import copy_range  # noqa: PLC0415

        context = TaskContext.get()
        attempt = f"{context.taskAttemptId() if context else 0}-{uuid.uuid4().hex}"
        return copy_range(access.connection, access.repository(), layout, wanted, compression_level=spec.compression_level, attempt=attempt)

    copied = spread(spark, sorted(spec.ranges, key=lambda wanted: -wanted.size_hint), work, RangeCopied)
    found = {(done.tp, done.copied.start): done for done in copied}
    return BackupResult(ranges=tuple(found[wanted.tp, wanted.start] for wanted in spec.ranges), seconds=time.monotonic() - started)
