"""Rows of many archived logs in one DataFrame, each told by the number of its log, and the way back to one log at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.segment_reader import archived_batches
from spark_jobs.transforms.task_runner import in_tasks
from streams_recovery.core.compaction.values import in_portions
from streams_recovery.core.repository.manifest import SegmentFile

COLUMNS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
ROWS: Final = (
    "log int, offset long, timestamp long, timestamp_type byte, key binary, value binary, headers array<struct<key: string, value: binary>>"
)
# What one task reads: enough to be worth its start, little enough for many tasks to share a long log.
_PORTION_BYTES: Final = 64 << 20
# What the user has chosen for other jobs does not hold for these.
_SETTINGS: Final = {
    # Spark counts in rows, whatever their size: what it hands to Python at once, and what it keeps of one key's rows before it can put some on disk.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
    "spark.sql.windowExec.buffer.in.memory.threshold": "64",
    # Else a window moves rows that lie together by part of its keys already, and those of one key come to several tasks.
    "spark.sql.requireAllClusterKeysForDistribution": "false",
    # Else a written table is counted without the files that cannot be read.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Else what is grouped loses its keys, and "offset" is no name of a column.
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.ansi.enforceReservedKeywords": "false",
}


def rows_of(spark: SparkSession, files: Mapping[int, Sequence[SegmentFile]], access: JobAccess) -> DataFrame:
    """All rows of these files, by the number of their log. Every file is checked before its first row is used."""
    fix_settings(spark)
    portions = [(log, portion) for log, several in files.items() for portion in in_portions(several, _PORTION_BYTES)]

    def read(wanted: tuple[int, tuple[SegmentFile, ...]]) -> Iterator[pa.RecordBatch]:
        log, portion = wanted
        return (labelled(batch, log) for batch in counted(archived_batches(access.repository(), portion)))

    doing = Doing(name="reading files", records=sum(file.rows for _, portion in portions for file in portion))
    return in_tasks(spark, portions, read, ROWS, lambda wanted: sum(file.rows for file in wanted[1]), doing)


def fix_settings(spark: SparkSession) -> None:
    """Set what results and memory depend on, for everything that this session does from now on, whatever the user's ``spark-defaults.conf`` says."""
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)


def labelled(batch: pa.RecordBatch, log: int) -> pa.RecordBatch:
    """Rows of a segment as rows of a log."""
    number = pa.repeat(pa.scalar(log, pa.int32()), len(batch))
    return pa.record_batch([number, *(batch.column(name) for name in COLUMNS)], names=["log", *COLUMNS])


def one_log_at_a_time(rows: DataFrame, logs: int, *order: str) -> DataFrame:
    """``rows`` with all of a log in one Spark partition, one log after the other, each in this order. Spark sorts, on disk where it must."""
    # Spark goes by a hash of the number, which may bring several logs into one partition: so they are sorted by log first.
    return rows.repartition(max(1, logs), "log").sortWithinPartitions("log", *order)


def by_log(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches cut where the log changes."""
    for batch in batches:
        start = 0
        while start < len(batch):
            log = batch.column("log")[start].as_py()
            end = start + pc.sum(pc.equal(batch.column("log"), log)).as_py()
            yield log, batch.slice(start, end - start)
            start = end
