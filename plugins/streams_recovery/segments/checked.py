"""A segment opened with limits: nothing that it claims of itself is believed before it was looked at."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.segments.footer import HEADERS, Group, groups_of, problem_of
from streams_recovery.segments.pages import DELTA_BINARY_PACKED, PLAIN, NoPage, Totals, check_pages, pages
from streams_recovery.segments.schema import check_schema
from streams_recovery.segments.thrift import NotThrift

_MAGIC: Final = b"PAR1"
_FOOTER_END: Final = 8
# Of 4,000 row groups.
_MOST_FOOTER: Final = 4 << 20
_MOST_TEXT: Final = 1 << 16
_MOST_OF_A_KIND: Final = 1 << 17
_ENCODINGS: Final = {"offset": DELTA_BINARY_PACKED, "timestamp": DELTA_BINARY_PACKED}


class CheckedSegment:
    """The row groups of one segment, whose footer was found to be one of this software for this ``file`` of a manifest."""

    def __init__(self, parquet: pq.ParquetFile, handle: BinaryIO, groups: list[Group], file: SegmentFile) -> None:
        self._parquet, self._handle, self._groups, self._file = parquet, handle, groups, file
        self.rows = [group.rows for group in groups]

    def unpacked(self, group: int, columns: Collection[str]) -> int:
        """Bytes in memory of these columns of one row group."""
        return self._groups[group].unpacked(_leaves(columns))

    def batches(self, group: int, columns: Collection[str], *, rows: int) -> Iterator[pa.RecordBatch]:
        """These columns of one row group, in batches of so many rows. Raises ``Damaged``."""
        for name in _leaves(columns):
            self._check_pages(name, self._groups[group])
        with _as_damage(self._file):
            for batch in self._parquet.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False):
                # Full: anything less does not look whether the keys of headers are UTF-8.
                batch.validate(full=True)
                yield batch

    def _check_pages(self, name: str, group: Group) -> None:
        chunk = group.chunks[name]
        found = pages(self._read_at, chunk.start, chunk.start + chunk.packed)
        try:
            check_pages(found, _ENCODINGS.get(name, PLAIN), Totals(chunk.values, chunk.unpacked))
        except NoPage as error:
            raise self._file.damaged(f"has a column {name} that cannot be read: {error}") from None

    def _read_at(self, start: int, count: int) -> bytes:
        self._handle.seek(start)
        return self._handle.read(count)


@contextmanager
def open_segment(handle: BinaryIO, file: SegmentFile, *, path: Path | None = None) -> Iterator[CheckedSegment]:
    """The segment in a seekable file, which at ``path`` is read faster. Takes memory for its footer only. Raises ``Damaged``."""
    groups = _claimed(handle, file)
    with _as_damage(file):
        parquet = pq.ParquetFile(
            handle if path is None else path,
            page_checksum_verification=True,
            pre_buffer=False,
            thrift_string_size_limit=_MOST_TEXT,
            thrift_container_size_limit=_MOST_OF_A_KIND,
        )
    with parquet:
        with _as_damage(file):
            check_schema(parquet.schema_arrow, where=file.key)
        yield CheckedSegment(parquet, handle, groups, file)


def _claimed(handle: BinaryIO, file: SegmentFile) -> list[Group]:
    try:
        groups = groups_of(_footer(handle, file))
    except NotThrift as error:
        raise file.damaged(f"has no footer of a segment, it cannot be read: {error}") from None
    if (rows := sum(group.rows for group in groups)) != file.rows:
        raise file.damaged(f"has rows {rows}, not {file.rows}")
    for group in groups:
        if problem := problem_of(group, file):
            raise file.damaged(problem)
    return groups


def _footer(handle: BinaryIO, file: SegmentFile) -> bytes:
    size = handle.seek(0, os.SEEK_END)
    if size != file.bytes:
        raise file.damaged(f"has {size} bytes, not {file.bytes}")
    handle.seek(max(0, size - _FOOTER_END))
    end = handle.read(_FOOTER_END)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > min(_MOST_FOOTER, size - _FOOTER_END):
        raise file.damaged(f"claims a footer of {length} bytes, or has none: it cannot be read")
    handle.seek(size - _FOOTER_END - length)
    return handle.read(length)


def _leaves(columns: Collection[str]) -> list[str]:
    return [leaf for name in columns for leaf in (HEADERS if name == "headers" else (name,))]


@contextmanager
def _as_damage(file: SegmentFile) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        # Of this machine, not of the file: Arrow's own is both.
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise file.damaged(f"cannot be read: {str(error)[:300]}") from error
