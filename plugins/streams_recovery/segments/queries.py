"""Questions to a segment in the repository that its manifest entry does not answer, and a copy of it that is proven to be what was written.

All raise ``NotFound``, and ``Damaged`` for what is no segment or is not the file that the manifest means.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from streams_recovery.core.jobs.spec import RowCut
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.restore.interval import BESIDE, Bounds, IntervalLook
from streams_recovery.core.restore.point_in_time import Split
from streams_recovery.segments.checked import open_segment
from streams_recovery.storage.repository import Repository

_CHUNK: Final = 8 << 20
_ROWS: Final = 1 << 16
_KEYS: Final = ("offset", "key")
_SMALL: Final = 8 << 20

# Twice a row group as it is written. Where a single record is larger than that there is no sample.
_MOST_SAMPLED: Final = 64 << 20


def first_values(repository: Repository, file: SegmentFile, count: int) -> list[bytes]:
    """Up to ``count`` values from the beginning of a segment, tombstones left out. Reads its first row group."""
    batch = next(_sample(repository, file, 0, "value", rows=count), None)
    return [] if batch is None else [value for value in batch.column(0).to_pylist() if value is not None]


def last_rows(repository: Repository, file: SegmentFile, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of up to ``count`` rows at the end of a segment, in order. Reads its last row group."""
    last: deque[tuple[bytes | None, bytes | None]] = deque(maxlen=count)
    for batch in _sample(repository, file, -1, "key", "value", rows=1_000):
        last.extend(zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True))
    return list(last)


def keyed_stamps(repository: Repository, file: SegmentFile, count: int, *, last: bool) -> list[tuple[bytes, int]]:
    """Key and timestamp of up to ``count`` rows at the beginning of a segment, or at its end, without those that have no key. Reads one row group."""
    found: deque[tuple[bytes, int]] = deque(maxlen=count)
    for batch in _sample(repository, file, -1 if last else 0, "key", "timestamp", rows=count):
        pairs = zip(batch.column("key").to_pylist(), batch.column("timestamp").to_pylist(), strict=True)
        found.extend((key, at) for key, at in pairs if key is not None)
        if not last and found:
            break
    return list(found)


def keys_from(repository: Repository, file: SegmentFile, offset: int, count: int) -> list[bytes]:
    """The first keys of a segment, up to ``count``, from the row at ``offset`` on. Row groups that are too large for a sample are passed over."""
    found: list[bytes] = []
    with _opened(repository, file) as handle, open_segment(handle, file, repository.data_keys) as segment:
        for group in range(len(segment.rows)):
            if segment.unpacked(group, _KEYS) > _MOST_SAMPLED:
                continue
            for batch in segment.batches(group, _KEYS, rows=_ROWS):
                keys = batch.filter(pc.greater_equal(batch.column("offset"), offset)).column("key").drop_null()
                found += keys.slice(0, count - len(found)).to_pylist()
                if len(found) == count:
                    return found
    return found


def rows_below(repository: Repository, file: SegmentFile, offset: int) -> int:
    """The number of rows of a segment with an offset below ``offset``. Reads the offset column only."""
    return sum(_count(pc.less(batch.column(0), offset)) for batch in _batches(repository, file, "offset"))


def rows_below_and_no_later(repository: Repository, file: SegmentFile, offset: int, cut: RowCut | None) -> int:
    """The number of rows of a segment with an offset below ``offset`` that are, unless it is None, no later than the moment of ``cut``."""
    if cut is None:
        return rows_below(repository, file, offset)
    return sum(
        _count(pc.and_(pc.less(batch.column("offset"), offset), pc.invert(_later(batch, cut.moment, cut.written))))
        for batch in _batches(repository, file, "offset", "timestamp")
    )


def split_at(repository: Repository, file: SegmentFile, moment: int, written: int = 0) -> Split:
    """The first row later than ``moment``, and the numbers of rows that are no later before and behind it. None below ``written`` is later. Reads
    offsets and timestamps only.

    Raises ``Damaged`` also when no row is later although the file's description says so.
    """
    first_later, before, behind, dated_later, ahead = None, 0, 0, 0, 0
    for batch in _batches(repository, file, "offset", "timestamp"):
        later = _later(batch, moment, written)
        stamped = _count(pc.greater(batch.column("timestamp"), moment))
        dated_later, ahead = dated_later + stamped, ahead + stamped - _count(later)
        known = first_later is not None
        at = -1 if known else pc.index(later, True).as_py()
        earlier = len(batch) - _count(later)
        in_order = 0 if known else earlier if at < 0 else at
        before, behind = before + in_order, behind + earlier - in_order
        if at >= 0:
            first_later = batch.column("offset")[at].as_py()
    if not dated_later:
        raise file.damaged(f"has no record later than {moment}, and is said to have one of {file.max_timestamp}")
    return Split(first_later=first_later, before=before, behind=behind, ahead=ahead)


def _later(batch: pa.RecordBatch, moment: int, written: int) -> pa.Array:
    return pc.and_(pc.greater(batch.column("timestamp"), moment), pc.greater_equal(batch.column("offset"), written))


def edge_stamps(repository: Repository, file: SegmentFile, *, last: bool) -> list[tuple[int, int]]:
    """Offsets and timestamps of the first rows of a segment, or of its ``last`` ones. Reads offsets and timestamps only."""
    found: deque[tuple[int, int]] = deque(maxlen=BESIDE)
    for batch in _batches(repository, file, "offset", "timestamp", rows=_ROWS if last else BESIDE):
        some = batch.slice(max(0, len(batch) - BESIDE))
        found.extend(zip(some.column("offset").to_pylist(), some.column("timestamp").to_pylist(), strict=True))
        if not last and len(found) == BESIDE:
            break
    return list(found)


def timestamp_at(repository: Repository, file: SegmentFile, offset: int) -> int:
    """The timestamp of the row with this offset. Raises ``Damaged`` without one."""
    for batch in _batches(repository, file, "offset", "timestamp"):
        at = pc.index(batch.column("offset"), offset).as_py()
        if at >= 0:
            return int(batch.column("timestamp")[at].as_py())
    raise file.damaged(f"has no record at offset {offset}, and had one before")


def look_into(repository: Repository, file: SegmentFile, bounds: Bounds) -> IntervalLook:
    """The rows of a segment that are within these bounds. Reads offsets and timestamps only."""
    rows = behind = own = lead = wrong = left = around = 0
    first_later = stop = None
    for batch in _batches(repository, file, "offset", "timestamp"):
        stamped = batch.column("timestamp")
        ends = 0 if bounds.ended or stop is not None else pc.index(_ending(batch, bounds), True).as_py()
        if ends >= 0:
            too_late = _within(batch.slice(ends), bounds)
            of_it = _own(too_late, bounds)
            left, around = left + of_it, around + len(too_late) - of_it
        if bounds.ended or stop is not None:
            continue
        stop = batch.column("offset")[ends].as_py() if ends >= 0 else None
        later = pc.index(pc.greater(stamped, bounds.last), True).as_py()
        if first_later is None and later >= 0:
            first_later = batch.column("offset")[later].as_py()
        reach = batch.slice(0, ends) if ends >= 0 else batch
        # The others of that time have not ended the log.
        wrong += _count(pc.greater_equal(reach.column("timestamp"), bounds.closed))
        taken = _within(reach, bounds)
        if lead == rows:
            begins = pc.index(pc.greater_equal(taken.column("timestamp"), bounds.own.start), True).as_py()
            lead += begins if begins >= 0 else len(taken)
        rows += len(taken)
        own += _own(taken, bounds)
        behind += 0 if first_later is None else _count(pc.greater(taken.column("offset"), first_later))
    return IntervalLook(
        rows=rows, behind=behind, own=own, lead=lead, first_later=first_later, stop=stop, wrong=wrong, left=left, around=around
    )


def _ending(batch: pa.RecordBatch, bounds: Bounds) -> pa.Array:
    stamped = batch.column("timestamp")
    dated = pc.and_(pc.greater_equal(stamped, bounds.closed), pc.less_equal(stamped, bounds.latest))
    return pc.and_(dated, pc.greater_equal(batch.column("offset"), bounds.written))


def _own(batch: pa.RecordBatch, bounds: Bounds) -> int:
    stamps = batch.column("timestamp")
    return _count(pc.and_(pc.greater_equal(stamps, bounds.own.start), pc.less(stamps, bounds.own.end)))


def _within(batch: pa.RecordBatch, bounds: Bounds) -> pa.RecordBatch:
    batch = batch.filter(pc.less_equal(batch.column("timestamp"), bounds.last))
    if bounds.since is not None:
        batch = batch.filter(pc.greater_equal(batch.column("timestamp"), bounds.since))
    return batch if bounds.first is None else batch.filter(pc.greater_equal(batch.column("offset"), bounds.first))


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)


def fetch(repository: Repository, file: SegmentFile, path: Path) -> None:
    """Copy a segment to ``path``. Raises ``Damaged`` when it is not, byte for byte, what was written; nothing is read of one with another size."""
    digest = hashlib.sha256()
    with contextlib.closing(open_sized(repository, file)) as source, path.open("wb") as target:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            target.write(chunk)
    if digest.hexdigest() != file.sha256:
        raise file.damaged(f"has SHA-256 {digest.hexdigest()}, not {file.sha256}")


def open_sized(repository: Repository, file: SegmentFile) -> BinaryIO:
    """A segment as a file that reads ranges as they are asked for. Raises ``NotFound``, and ``Damaged`` when it has not the size it was written with."""
    size = repository.size(file.key)
    if size is not None and size != file.bytes:
        raise file.damaged(f"has {size} bytes, not {file.bytes}")
    return repository.open(file.key, size=size)


def _batches(repository: Repository, file: SegmentFile, *columns: str, rows: int = _ROWS) -> Iterator[pa.RecordBatch]:
    """Columns of numbers, in order."""
    with _opened(repository, file) as handle, open_segment(handle, file, repository.data_keys) as segment:
        for group in range(len(segment.rows)):
            yield from segment.batches(group, columns, rows=rows)


def _sample(repository: Repository, file: SegmentFile, group: int, *columns: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The first or the last row group (0 or -1) of a segment; nothing of one that is too large to be looked into."""
    with _opened(repository, file) as handle, open_segment(handle, file, repository.data_keys) as segment:
        number = range(len(segment.rows))[group]
        if segment.unpacked(number, columns) <= _MOST_SAMPLED:
            yield from segment.batches(number, columns, rows=rows)


def _opened(repository: Repository, file: SegmentFile) -> BinaryIO:
    """One request for a small file instead of several."""
    return io.BytesIO(repository.get(file.key, most_bytes=file.bytes)) if file.bytes <= _SMALL else open_sized(repository, file)
