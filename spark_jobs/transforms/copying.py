"""Backing up: ranges become segments."""

from __future__ import annotations

import time
import uuid

from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark_jobs.access import Access
from spark_jobs.transforms.spread import spread
from streams_recovery.core.jobs import BackupResult, BackupSpec, RangeOutcome, RangeToCopy
from streams_recovery.core.layout import Layout


def copy_ranges(spark: SparkSession, spec: BackupSpec, access: Access) -> BackupResult:
    """Copy every range. Results are in the order of the spec."""
    started = time.monotonic()
    layout = Layout(spec.application_id)

    def work(wanted: RangeToCopy) -> RangeOutcome:
        # Imported in the task: the driver needs no Kafka client.
        from streams_recovery.kafka.copying import copy_what_is_left  # noqa: PLC0415

        context = TaskContext.get()
        attempt = f"{context.taskAttemptId() if context else 0}-{uuid.uuid4().hex}"
        level = spec.compression_level
        return copy_what_is_left(access.connection, access.repository(), layout, wanted, compression_level=level, attempt=attempt)

    outcomes = spread(spark, spec.ranges, work, RangeOutcome, lambda wanted: wanted.size_hint)
    return BackupResult(
        ranges=tuple(piece for outcome in outcomes for piece in outcome.copied),
        lost=tuple(piece for outcome in outcomes for piece in outcome.lost),
        seconds=time.monotonic() - started,
    )
