"""Segments from the repository, checked before the first row is used, and new ones that tasks store there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.transforms.task_runner import attempt_name
from streams_recovery.core.jobs.spec import CutBy, OffsetSpan, RowCut, RowSlice
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.encryption import attempt_with
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange, SegmentFile
from streams_recovery.segments.files import workspace
from streams_recovery.segments.queries import fetch
from streams_recovery.segments.schema import SEGMENT_SCHEMA
from streams_recovery.storage.repository import Repository

_NO_END = 2**63 - 1


def archived_batches(
    repository: Repository, files: Sequence[SegmentFile], *, on_disk: bool = False, columns: Sequence[str] = SEGMENT_SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """All rows of ``files``, in this order. Each file is fetched whole and its hash compared before one of its rows is handed out. For many logs at once their
    rows wait ``on_disk``, with all ``columns``.

    Needs local space for the largest file, and memory for one batch. Raises ``Damaged`` naming the file.
    """
    # Parquet reading is shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.segments.files import read_segment, waiting_in  # noqa: PLC0415

    with workspace("a segment is fetched") as directory:
        path = directory / "segment.parquet"
        for file in files:
            fetch(repository, file, path)
            yield from read_segment(
                path, file, repository.data_keys, by=waiting_in(directory / "rows.arrow") if on_disk else iter, columns=columns
            )


def stored_segment(
    repository: Repository,
    application_id: str,
    tp: TopicPartition,
    start: int,
    rows: Iterable[pa.RecordBatch],
    path: Path,
    *,
    compression_level: int,
    end: int | None = None,
) -> CopiedRange | None:
    """Write ``rows`` as a segment to ``path`` and from there into the repository; None without a row. Its range ends behind the last one, or at ``end``."""
    # Shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.segments.files import write_segment  # noqa: PLC0415

    data_key = repository.data_keys.writing(application_id)
    segment = write_segment(rows, path, compression_level=compression_level, key=data_key)
    if segment is None:
        return None
    end = segment.last_offset + 1 if end is None else end
    key = Layout(application_id).segment(tp, start, end, attempt_with(attempt_name(), data_key))
    repository.put_file(key, path)
    # What is in the repository counts, not what is on this disk.
    path.unlink()
    return CopiedRange(start=start, end=end, file=segment.stored_as(key))


def chosen_batches(repository: Repository, files: Sequence[SegmentFile], cut: RowCut | None) -> Iterator[pa.RecordBatch]:
    """The rows of ``files`` that ``cut`` takes, all of them without one. Files are checked whole either way."""
    for batch in archived_batches(repository, files):
        rows = batch if cut is None else taken(batch, cut)
        if len(rows):
            yield rows


def first_rows(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The ``batches`` up to so many rows."""
    left = rows
    while left and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= min(left, len(batch))


def taken(batch: pa.RecordBatch, cut: RowCut) -> pa.RecordBatch:
    """The rows of a batch that belong to the moment, and to the slice where there is one; or the others, when the cut takes the rest."""
    if cut.slice is not None:
        batch = _sliced(batch, cut.slice)
    if cut.left_out:
        batch = batch.filter(_outside(batch, cut.left_out))
    if cut.rest:
        return batch.filter(pc.invert(_belongs(batch, cut)))
    return batch.filter(_belongs(batch, cut))


def _belongs(batch: pa.RecordBatch, cut: RowCut) -> pa.Array:
    if cut.by is CutBy.TIMESTAMP:
        return pc.or_(pc.less_equal(batch.column("timestamp"), cut.moment), pc.less(batch.column("offset"), cut.written))
    # Without a later record nothing is left over, and nobody asks.
    return pc.less(batch.column("offset"), _NO_END if cut.first_later is None else cut.first_later)


def _outside(batch: pa.RecordBatch, spans: Sequence[OffsetSpan]) -> pa.Array:
    """Whether each row is in none of the ``spans``, which are in the order of offsets: the last one that begins at or before it has to end before it."""
    offsets = batch.column("offset").to_numpy()
    at = np.searchsorted(np.array([one.first for one in spans]), offsets, side="right") - 1
    return pa.array((at < 0) | (offsets > np.array([one.last for one in spans])[at]))


def _sliced(batch: pa.RecordBatch, part: RowSlice) -> pa.RecordBatch:
    if part.since is not None:
        batch = batch.filter(pc.greater_equal(batch.column("timestamp"), part.since))
    if part.first is not None:
        batch = batch.filter(pc.greater_equal(batch.column("offset"), part.first))
    return batch if part.stop is None else batch.filter(pc.less(batch.column("offset"), part.stop))
