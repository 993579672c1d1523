"""Merging: the files of a group become one, with every record as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.segment_reader import archived_batches, stored_segment
from spark_jobs.transforms.task_runner import run_tasks
from streams_recovery.core.compaction.values import CompactResult, CompactSpec, RangeCompacted, RangeToCompact
from streams_recovery.core.repository.check import FileToCheck, content_problems
from streams_recovery.core.repository.layout import Layout
from streams_recovery.segments.files import workspace
from streams_recovery.segments.queries import fetch
from streams_recovery.storage.repository import Repository

if TYPE_CHECKING:
    from streams_recovery.segments.schema import RowDigest

# Asking an object store for one takes as long as that many records do.
WORTH_OF_A_FILE: Final = 1_000


def merge_groups(context: Tasks, spec: CompactSpec, access: JobAccess) -> CompactResult:
    """Write each group as one segment, and read it back from the repository. What is found is reported, not judged. Fails when a file is damaged."""
    started = time.monotonic()
    layout, level = Layout(spec.application_id), spec.compression_level
    doing = Doing(name="merging files", records=sum(group.rows for group in spec.ranges))

    def work(group: RangeToCompact) -> RangeCompacted:
        return merge_group(access.repository(), layout, group, level)

    merged = run_tasks(context, spec.ranges, work, RangeCompacted, lambda group: group.rows + WORTH_OF_A_FILE * len(group.files), doing)
    return CompactResult(ranges=tuple(merged), seconds=time.monotonic() - started)


def merge_group(repository: Repository, layout: Layout, group: RangeToCompact, compression_level: int) -> RangeCompacted:
    """One group. Needs local space for the new file and the largest of the old ones, and memory for one row group. Runs in a task."""
    # Shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.segments.files import contents_of  # noqa: PLC0415
    from streams_recovery.segments.schema import RowDigest  # noqa: PLC0415

    before, after = RowDigest(placed=True), RowDigest(placed=True)
    with workspace("small files are merged") as directory:
        path, rows = directory / "merged.parquet", _seen(repository, group, before)
        copied = stored_segment(
            repository, layout.application_id, group.tp, group.start, rows, path, compression_level=compression_level, end=group.end
        )
        if copied is None or copied.file is None:
            raise group.files[0].damaged("has no row")
        file = copied.file
        fetch(repository, file, path)
        seen, ascending = contents_of(path, file, after, keys=repository.data_keys)
    wanted = FileToCheck(tp=group.tp, start=group.start, end=group.end, file=file, savepoints=())
    return RangeCompacted(
        tp=group.tp,
        ranges=(replace(copied, compacted=group.compacted),),
        rows_before=before.rows,
        rows_after=after.rows,
        digest_before=before.hexdigest(),
        digest_after=after.hexdigest(),
        problems=content_problems(wanted, seen, ascending=ascending),
    )


def _seen(repository: Repository, group: RangeToCompact, digest: RowDigest) -> Iterator[pa.RecordBatch]:
    for batch in counted(archived_batches(repository, group.files)):
        digest.update(batch)
        yield batch
