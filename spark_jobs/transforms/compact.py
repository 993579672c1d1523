"""Compacting changelogs: of all rows of a key the newest stays. Spark brings the rows of a key together; no row passes through the driver."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it

from spark_jobs.access import JobAccess
from spark_jobs.transforms.check import check_file
from spark_jobs.transforms.keyed_rows import ROWS, by_log, labelled, one_log_at_a_time, rows_of
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.segment_reader import archived_batches, stored_segment
from spark_jobs.transforms.state_digest import KeyedState, no_state, states
from spark_jobs.transforms.task_runner import in_tasks, results_of_tasks, run_tasks
from streams_recovery.core.compaction.values import CompactResult, CompactSpec, RangeCompacted, RangeToCompact
from streams_recovery.core.repository.check import FileChecked, FileToCheck
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange, SegmentFile
from streams_recovery.core.scratch import scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWritten:
    """A file of compacted rows. ``log`` is the number of its partition in the specification."""

    log: int
    copied: CopiedRange


def reduce_partitions(spark: SparkSession, spec: CompactSpec, access: JobAccess) -> CompactResult:
    """Write the compacted rows of every partition as segments, read them back, and compare the state they stand for with that of all rows.

    What is found is reported, not judged: see ``core.compaction``. Fails when a file of the original is damaged.
    """
    started = time.monotonic()
    logs = range(len(spec.ranges))
    originals = {log: spec.ranges[log].files for log in logs}
    ranges = _written(survivors(spark, spec, access), spec, access)
    files = {log: [copied.file for copied in ranges[log] if copied.file is not None] for log in logs}
    checked = _checked(spark, spec, ranges, access)
    before = states(rows_of(spark, originals, access), spec.ranges)
    after = states(rows_of(spark, files, access), spec.ranges)
    found = tuple(
        _compacted(wanted, before.get(log, no_state(log)), after.get(log, no_state(log)), ranges[log], checked)
        for log, wanted in enumerate(spec.ranges)
    )
    return CompactResult(ranges=found, seconds=time.monotonic() - started)


def _compacted(
    wanted: RangeToCompact, before: KeyedState, after: KeyedState, ranges: tuple[CopiedRange, ...], checked: Mapping[str, FileChecked]
) -> RangeCompacted:
    return RangeCompacted(
        tp=wanted.tp,
        ranges=ranges,
        rows_before=before.rows,
        rows_after=after.rows,
        digest_before=before.digest,
        digest_after=after.digest,
        keys=before.keys,
        state_before=before.state,
        state_after=after.state,
        foreign=before.foreign,
        problems=tuple(problem for copied in ranges if copied.file is not None for problem in checked[copied.file.key].problems),
    )


def survivors(spark: SparkSession, spec: CompactSpec, access: JobAccess) -> DataFrame:
    """The rows that stay. Those that carry the newest timestamp of a windowed store's log are named twice when they are the newest of their key."""
    rows = rows_of(spark, {log: wanted.files for log, wanted in enumerate(spec.ranges)}, access)
    return newest_of_each_key(rows, spec.ranges).unionByName(_newest_in_time(spark, spec.ranges, access))


def newest_of_each_key(rows: DataFrame, partitions: Sequence[RangeToCompact]) -> DataFrame:
    """The newest row of each key of each log. Tombstones stay only where the store needs them; rows without a key are no state."""
    keeping = [log for log, wanted in enumerate(partitions) if wanted.keeps_deleted]
    newest = F.max_by(F.struct("offset", "timestamp", "timestamp_type", "value", "headers"), "offset").alias("row")
    found = rows.filter(F.col("key").isNotNull()).groupBy("log", "key").agg(newest)
    return found.filter(F.col("row")["value"].isNotNull() | F.col("log").isin(keeping)).select("log", "key", "row.*")


def _newest_in_time(spark: SparkSession, partitions: Sequence[RangeToCompact], access: JobAccess) -> DataFrame:
    """The last of the rows with the latest timestamp, of each log of a windowed store: a newer row of its key may be older in time."""
    wanted = [
        (log, max(one.files, key=lambda file: (file.max_timestamp, file.first_offset)))
        for log, one in enumerate(partitions)
        if one.keeps_deleted
    ]

    def last_of_latest(item: tuple[int, SegmentFile]) -> Iterator[pa.RecordBatch]:
        log, file = item
        found = None
        for batch in archived_batches(access.repository(), (file,)):
            latest = batch.filter(pc.equal(batch.column("timestamp"), file.max_timestamp))
            found = latest.slice(len(latest) - 1) if len(latest) else found
        if found is not None:
            yield labelled(found, log)

    return in_tasks(spark, wanted, last_of_latest, ROWS, lambda item: item[1].rows)


def _written(rows: DataFrame, spec: CompactSpec, access: JobAccess) -> dict[int, tuple[CopiedRange, ...]]:
    """Segments of ``rows``, one task a log. Ranges follow each other from the start of the log's archive to its end."""
    # Without the files: this goes to every task, which needs of a log only where it begins.
    logs = replace(spec, ranges=tuple(replace(one, files=()) for one in spec.ranges))

    ordered = one_log_at_a_time(rows, len(spec.ranges), "offset")
    found: dict[int, list[CopiedRange]] = {log: [] for log in range(len(spec.ranges))}
    for written in results_of_tasks(ordered, lambda batches: write_logs(batches, logs, access), FileWritten):
        found[written.log].append(written.copied)
    return {log: _to_the_end(wanted, found[log]) for log, wanted in enumerate(spec.ranges)}


def _to_the_end(wanted: RangeToCompact, pieces: Sequence[CopiedRange]) -> tuple[CopiedRange, ...]:
    ordered = sorted(pieces, key=lambda piece: piece.start)
    end = ordered[-1].end if ordered else wanted.start
    if end == wanted.end:
        return tuple(ordered)
    return (*ordered, CopiedRange(start=end, end=wanted.end, file=None, compacted=Compaction.LATEST_PER_KEY))


def write_logs(batches: Iterator[pa.RecordBatch], spec: CompactSpec, access: JobAccess) -> Iterator[FileWritten]:
    """Files of at most ``max_records`` rows. ``batches`` hold one log after the other in the order of offsets. Runs in a task."""
    repository, level = access.repository(), spec.compression_level
    ends: dict[int, int] = {}
    with scratch() as directory:
        path = directory / "segment.parquet"
        for (log, _), pieces in itertools.groupby(_pieces(batches, spec.max_records), key=lambda piece: piece[:2]):
            rows = (as_segment(piece[2]) for piece in pieces)
            wanted = spec.ranges[log]
            start = ends.get(log, wanted.start)
            copied = stored_segment(repository, spec.application_id, wanted.tp, start, rows, path, compression_level=level)
            if copied is not None:
                ends[log] = copied.end
                yield FileWritten(log=log, copied=replace(copied, compacted=Compaction.LATEST_PER_KEY))


def _pieces(batches: Iterator[pa.RecordBatch], max_records: int) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Log, number of the file in it, and rows of that file."""
    current, rows, last = -1, 0, -1
    for log, batch in by_log(batches):
        if log != current:
            current, rows, last = log, 0, -1
        left = _once(batch, last)
        last = batch.column("offset")[-1].as_py()
        while len(left):
            piece = left.slice(0, max_records - rows % max_records)
            yield log, rows // max_records, piece
            rows += len(piece)
            left = left.slice(len(piece))


def _once(batch: pa.RecordBatch, last: int) -> pa.RecordBatch:
    """Rows without those that were named twice. ``last`` is the offset of the row before them."""
    steps = pc.pairwise_diff(batch.column("offset"))
    return batch.filter(pc.not_equal(pc.fill_null(steps, batch.column("offset")[0].as_py() - last), 0))


def as_segment(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a log as rows of a segment."""
    from streams_recovery.segments.schema import SEGMENT_SCHEMA  # noqa: PLC0415  # as above

    return pa.record_batch([batch.column(field.name).cast(field.type) for field in SEGMENT_SCHEMA], schema=SEGMENT_SCHEMA)


def _checked(
    spark: SparkSession, spec: CompactSpec, ranges: dict[int, tuple[CopiedRange, ...]], access: JobAccess
) -> dict[str, FileChecked]:
    """The findings of a check of every new file, by its key."""
    layout = Layout(spec.application_id)
    wanted = [
        FileToCheck(tp=one.tp, start=copied.start, end=copied.end, file=copied.file, savepoints=())
        for log, one in enumerate(spec.ranges)
        for copied in ranges[log]
        if copied.file is not None
    ]
    doing = Doing(name="checking new files")
    done = run_tasks(
        spark.sparkContext, wanted, lambda one: check_file(access.repository(), layout, one), FileChecked, lambda one: one.file.rows, doing
    )
    return {one.key: one for one in done}
