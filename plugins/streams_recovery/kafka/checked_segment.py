"""A segment opened with limits: nothing that it claims of itself is believed before it was looked at."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from streams_recovery.core.manifest import SegmentFile
from streams_recovery.kafka.parquet_pages import DELTA_BINARY_PACKED, PLAIN, NoPage, Totals, check_pages, pages
from streams_recovery.kafka.records import check_schema
from streams_recovery.kafka.segment_claims import HEADERS, Chunks, chunks_of, problem_of, unpacked_bytes

_FOOTER_END: Final = 8
_MOST_FOOTER: Final = 8 << 20
_MOST_TEXT: Final = 1 << 16
_MOST_OF_A_KIND: Final = 1 << 17
_ENCODINGS: Final = {"offset": DELTA_BINARY_PACKED, "timestamp": DELTA_BINARY_PACKED}


class CheckedSegment:
    """The row groups of one segment, whose footer was found to be one of this software for this ``file`` of a manifest."""

    def __init__(self, parquet: pq.ParquetFile, handle: BinaryIO, file: SegmentFile) -> None:
        """Raises ``Damaged``."""
        self._parquet, self._handle, self._file = parquet, handle, file
        found = parquet.metadata
        groups = [found.row_group(at) for at in range(found.num_row_groups)]
        self._chunks: list[Chunks] = [chunks_of(group) for group in groups]
        self.rows: list[int] = [group.num_rows for group in groups]
        if not found.num_rows == sum(self.rows) == file.rows:
            raise file.damaged(f"has rows {sum(self.rows)}, not {file.rows}")
        for chunks, rows in zip(self._chunks, self.rows, strict=True):
            if problem := problem_of(chunks, rows, file):
                raise file.damaged(problem)

    def unpacked(self, group: int, columns: Collection[str]) -> int:
        """Bytes in memory of these columns of one row group."""
        return unpacked_bytes(self._chunks[group], _leaves(columns))

    def batches(self, group: int, columns: Collection[str], *, rows: int) -> Iterator[pa.RecordBatch]:
        """These columns of one row group, in batches of so many rows. Raises ``Damaged``."""
        for name in _leaves(columns):
            self._check_pages(name, self._chunks[group])
        with _as_damage(self._file):
            for batch in self._parquet.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False):
                batch.validate(full=True)
                yield batch

    def _check_pages(self, name: str, chunks: Chunks) -> None:
        chunk = chunks[name]
        start, claimed = chunk.data_page_offset, Totals(chunk.num_values, chunk.total_uncompressed_size)
        try:
            check_pages(pages(self._read_at, start, start + chunk.total_compressed_size), _ENCODINGS.get(name, PLAIN), claimed)
        except NoPage as error:
            raise self._file.damaged(f"has a column {name} that cannot be read: {error}") from None

    def _read_at(self, start: int, count: int) -> bytes:
        self._handle.seek(start)
        return self._handle.read(count)


@contextmanager
def open_segment(handle: BinaryIO, file: SegmentFile, *, path: Path | None = None) -> Iterator[CheckedSegment]:
    """The segment in a seekable file, which at ``path`` is read faster. Takes memory for its footer only. Raises ``Damaged``."""
    with _as_damage(file):
        _check_footer(handle, file)
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
            opened = CheckedSegment(parquet, handle, file)
        yield opened


def _check_footer(handle: BinaryIO, file: SegmentFile) -> None:
    size = handle.seek(0, os.SEEK_END)
    if size != file.bytes:
        raise file.damaged(f"has {size} bytes, not {file.bytes}")
    handle.seek(max(0, size - _FOOTER_END))
    footer = int.from_bytes(handle.read(_FOOTER_END)[:4], "little")
    if footer > min(_MOST_FOOTER, size):
        raise file.damaged(f"claims a footer of {footer} bytes")


def _leaves(columns: Collection[str]) -> list[str]:
    return [leaf for name in columns for leaf in (HEADERS if name == "headers" else (name,))]


@contextmanager
def _as_damage(file: SegmentFile) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise file.damaged(f"cannot be read: {str(error)[:300]}") from error
