"""Asking a segment in the repository for what its manifest entry does not say."""

from __future__ import annotations

from collections import deque

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streams_recovery.core.errors import Damaged
from streams_recovery.core.manifest import SegmentFile
from streams_recovery.core.slices import Bounds, Looked
from streams_recovery.core.time_cut import Split
from streams_recovery.storage.repository import Repository


def first_values(repository: Repository, file: SegmentFile, count: int) -> list[bytes]:
    """Up to ``count`` values from the beginning of a segment, tombstones left out. Reads about one page of it. Raises ``NotFound``."""
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        batch = next(parquet.iter_batches(batch_size=count, columns=["value"]), None)
        return [] if batch is None else [value for value in batch.column(0).to_pylist() if value is not None]


def last_rows(repository: Repository, file: SegmentFile, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of up to ``count`` rows at the end of a segment, in order. Reads its last row group. Raises ``NotFound``."""
    last: deque[tuple[bytes | None, bytes | None]] = deque(maxlen=count)
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        groups = [parquet.num_row_groups - 1] if parquet.num_row_groups else []
        for batch in parquet.iter_batches(batch_size=1_000, row_groups=groups, columns=["key", "value"]):
            last.extend(zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True))
    return list(last)


def rows_below(repository: Repository, file: SegmentFile, offset: int) -> int:
    """How many rows of a segment have an offset below ``offset``. Reads the offset column only. Raises ``NotFound``."""
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        return int(sum(pc.sum(pc.less(batch.column(0), offset)).as_py() or 0 for batch in parquet.iter_batches(columns=["offset"])))


def rows_below_and_no_later(repository: Repository, file: SegmentFile, offset: int, moment: int | None) -> int:
    """How many rows of a segment have an offset below ``offset`` and, unless it is None, a timestamp no later than ``moment``. Raises ``NotFound``."""
    if moment is None:
        return rows_below(repository, file, offset)
    found = 0
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        for batch in parquet.iter_batches(columns=["offset", "timestamp"]):
            both = pc.and_(pc.less(batch.column("offset"), offset), pc.less_equal(batch.column("timestamp"), moment))
            found += pc.sum(both).as_py() or 0
    return found


def split_at(repository: Repository, file: SegmentFile, moment: int) -> Split:
    """Where the first row later than ``moment`` is, and how many rows that are no later come before and behind it. Reads offsets and timestamps only.

    Raises ``NotFound``, and ``Damaged`` when no row is later although the file's description says so.
    """
    first_later, before, behind = None, 0, 0
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        for batch in parquet.iter_batches(columns=["offset", "timestamp"]):
            later = pc.greater(batch.column("timestamp"), moment)
            known = first_later is not None
            at = -1 if known else pc.index(later, True).as_py()
            earlier = len(batch) - (pc.sum(later).as_py() or 0)
            in_order = 0 if known else earlier if at < 0 else at
            before, behind = before + in_order, behind + earlier - in_order
            if at >= 0:
                first_later = batch.column("offset")[at].as_py()
    if first_later is None:
        raise Damaged(
            f"{file.key} has no record later than {moment}, and is said to have one of {file.max_timestamp}",
            next_step="verify the repository, and choose another savepoint",
            key=file.key,
        )
    return Split(first_later=first_later, before=before, behind=behind)


def first_timestamp(repository: Repository, file: SegmentFile) -> int:
    """The timestamp of the first row of a segment. Raises ``NotFound``."""
    if file.min_timestamp == file.max_timestamp:
        return file.min_timestamp
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        return int(next(parquet.iter_batches(batch_size=1, columns=["timestamp"])).column(0)[0].as_py())


def look_into(repository: Repository, file: SegmentFile, bounds: Bounds) -> Looked:
    """Which rows of a segment are within these bounds. Reads offsets and timestamps only. Raises ``NotFound``."""
    rows = behind = own = lead = 0
    first_later = stop = None
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        for batch in parquet.iter_batches(columns=["offset", "timestamp"]):
            ends = pc.index(pc.greater_equal(batch.column("timestamp"), bounds.closed), True).as_py()
            stop = batch.column("offset")[ends].as_py() if ends >= 0 else None
            later = pc.index(pc.greater(batch.column("timestamp"), bounds.last), True).as_py()
            if first_later is None and later >= 0:
                first_later = batch.column("offset")[later].as_py()
            taken = _within(batch.slice(0, ends) if ends >= 0 else batch, bounds)
            stamps = taken.column("timestamp")
            if lead == rows:
                begins = pc.index(pc.greater_equal(stamps, bounds.own.start), True).as_py()
                lead += begins if begins >= 0 else len(taken)
            rows += len(taken)
            own += _count(pc.and_(pc.greater_equal(stamps, bounds.own.start), pc.less(stamps, bounds.own.end)))
            behind += 0 if first_later is None else _count(pc.greater(taken.column("offset"), first_later))
            if stop is not None:
                break
    return Looked(rows=rows, behind=behind, own=own, lead=lead, first_later=first_later, stop=stop)


def _within(batch: pa.RecordBatch, bounds: Bounds) -> pa.RecordBatch:
    batch = batch.filter(pc.less_equal(batch.column("timestamp"), bounds.last))
    if bounds.since is not None:
        batch = batch.filter(pc.greater_equal(batch.column("timestamp"), bounds.since))
    return batch if bounds.first is None else batch.filter(pc.greater_equal(batch.column("offset"), bounds.first))


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)
