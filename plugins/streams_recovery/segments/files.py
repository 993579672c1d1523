"""A segment as a local Parquet file: written once from batches, read back as batches."""

from __future__ import annotations

import hashlib
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streams_recovery.core.errors import TransientError, lasting
from streams_recovery.core.repository.encryption import NO_KEYS, DataKey, SegmentKeys
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.scratch import scratch
from streams_recovery.segments.checked import encrypted_with, open_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, RowDigest, largest_record, payload_bytes

# Half of what a writing task needs: the rows that wait for their row group, and the same rows being encoded.
ROW_GROUP_BYTES: Final = 32 << 20
PAGE_BYTES: Final = 8 << 20
READ_BYTES: Final = 8 << 20
# An encrypted row group has one page in a column, as large as a page otherwise is: DuckDB 2.0 cannot decrypt a second one.
ENCRYPTED_GROUP_BYTES: Final = PAGE_BYTES
_ONE_PAGE: Final = 1 << 30
_PIECE_BYTES: Final = 1 << 20


class SegmentFacts:
    """Facts about rows, gathered while they pass."""

    def __init__(self) -> None:
        self.rows = 0
        self.payload_bytes = 0
        self.largest_record = 0
        self.first_offset = self.last_offset = -1
        self.min_timestamp, self.max_timestamp = 2**63 - 1, -(2**63)

    def add(self, batch: pa.RecordBatch) -> None:
        offsets = batch.column("offset")
        if not self.rows:
            self.first_offset = offsets[0].as_py()
        self.last_offset = offsets[-1].as_py()
        stamps = pc.min_max(batch.column("timestamp")).as_py()
        self.min_timestamp = min(self.min_timestamp, stamps["min"])
        self.max_timestamp = max(self.max_timestamp, stamps["max"])
        self.rows += len(batch)
        self.payload_bytes += payload_bytes(batch)
        self.largest_record = max(self.largest_record, largest_record(batch))

    def of(self, path: Path, key: str) -> SegmentFile:
        """The manifest's entry for the file at ``path`` that has these rows. Reads it whole, for its hash."""
        # Its attributes are the fields of the same names.
        return SegmentFile(key=key, bytes=path.stat().st_size, sha256=sha256_of(path), **vars(self))


def write_segment(
    batches: Iterable[pa.RecordBatch], path: Path, *, compression_level: int, key: DataKey | None = None
) -> SegmentFile | None:
    """Write ``batches`` to a new file at ``path``, zstd-compressed at this level, encrypted with ``key``. Returns what a manifest says of it, without a key of
    an object: it has one when it is stored. None, and no file, when there is no row.
    """
    facts = encode_segment(batches, path, compression_level=compression_level, key=key)
    return None if facts is None else facts.of(path, key="")


def encode_segment(
    batches: Iterable[pa.RecordBatch], path: Path, *, compression_level: int, key: DataKey | None = None
) -> SegmentFacts | None:
    """As ``write_segment``, without a look at the file that it has written. Memory is bounded by ``ROW_GROUP_BYTES`` and the size of a batch, not by the
    number of rows.
    """
    facts = SegmentFacts()
    writer: pq.ParquetWriter | None = None
    try:
        for group in _row_groups(batches, facts, ROW_GROUP_BYTES if key is None else ENCRYPTED_GROUP_BYTES):
            if writer is None:
                writer = _writer(path, compression_level, key)
            writer.write_table(group, row_group_size=len(group))
    finally:
        if writer is not None:
            writer.close()
    return None if writer is None else facts


Passing = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def read_segment(
    path: Path, file: SegmentFile, keys: SegmentKeys = NO_KEYS, *, by: Passing = iter, columns: Sequence[str] = SEGMENT_SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """The rows of the segment at ``path``, in order, in batches of about ``READ_BYTES``. ``file`` is what its manifest says of it, ``keys`` are those of its
    repository. The rows of a row group pass ``by``: Arrow keeps what it needs to read one until all of them have passed. Of ``columns`` alone memory and time
    are less.

    Memory is bounded by one row group, and that by what ``file`` says. Raises ``Damaged`` when it cannot be read as a segment with so many rows. It does
    not check the file's hash: see ``sha256_of``.
    """
    with path.open("rb") as handle, open_segment(handle, file, keys, path=path) as segment:
        # One group after the other: asked for all of them, Arrow keeps what it has read of the file until its end.
        for group, count in enumerate(segment.rows):
            rows = max(16, min(20_000, READ_BYTES * count // segment.unpacked(group, columns)))
            yield from by(segment.batches(group, columns, rows=rows))


def contents_of(path: Path, file: SegmentFile, digest: RowDigest | None = None, *, keys: SegmentKeys = NO_KEYS) -> tuple[SegmentFile, bool]:
    """Facts about the rows of a file, in the form of the manifest's entry ``file`` for it, and whether their offsets ascend. ``digest`` gets all rows
    too.

    Raises ``Damaged`` when it cannot be read as a segment with so many rows.
    """
    facts = SegmentFacts()
    ascending = True
    for batch in read_segment(path, file, keys):
        offsets = batch.column("offset")
        between = pc.pairwise_diff(offsets)
        ascending &= not facts.rows or offsets[0].as_py() > facts.last_offset
        ascending &= pc.all(pc.greater(between, 0)).as_py() is not False
        facts.add(batch)
        if digest is not None:
            digest.update(batch)
    return facts.of(path, file.key), ascending


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _row_groups(batches: Iterable[pa.RecordBatch], facts: SegmentFacts, most_bytes: int) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        facts.add(batch)
        waiting.append(batch)
        size += batch.nbytes
        if size >= most_bytes:
            yield pa.Table.from_batches(waiting, SEGMENT_SCHEMA)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, SEGMENT_SCHEMA)


def _writer(path: Path, compression_level: int, key: DataKey | None = None) -> pq.ParquetWriter:
    pages = {"data_page_size": PAGE_BYTES} if key is None else {"data_page_size": _ONE_PAGE, "max_rows_per_page": _ONE_PAGE}
    return pq.ParquetWriter(
        path,
        SEGMENT_SCHEMA,
        compression="zstd",
        compression_level=compression_level,
        # Dictionaries, and other encodings than these, are refused when a segment is read: see checked.py.
        use_dictionary=False,
        column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
        # The only version that ``open_segment`` reads.
        data_page_version="1.0",
        # Statistics of keys and values would repeat whole records, up to a megabyte each, in the footer.
        write_statistics=["offset", "timestamp"],
        write_page_checksum=True,
        encryption_properties=encrypted_with(key),
        **pages,
    )


def waiting_in(path: Path) -> Passing:
    """For ``read_segment`` of many segments at once: all rows of a row group wait in a file at ``path``, and memory holds ``_PIECE_BYTES`` of them."""

    def passed(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(path), "wb") as target, pa.ipc.new_stream(target, SEGMENT_SCHEMA) as waiting:
            for batch in rows:
                each = max(1, len(batch) * _PIECE_BYTES // max(batch.nbytes, 1))
                for at in range(0, len(batch), each):
                    waiting.write_batch(batch.slice(at, each))
                del batch
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as waited:
            yield from waited

    return passed


@contextmanager
def workspace(doing: str) -> Iterator[Path]:
    """A directory of its own on this machine's disk, gone at the end. Nothing in it is ever needed again: what counts is in the repository.

    An error of that disk names machine, directory and what was being done: ``NoRoom`` when it is full, ``ConfigInvalid`` when it may not be written, else a
    ``TransientError``.
    """
    try:
        with scratch() as directory:
            yield directory
    except OSError as error:
        where = tempfile.gettempdir()
        raise (lasting(error.errno) or TransientError)(
            f"{socket.gethostname()} cannot keep a file in {where} while {doing}: {error.strerror or error}",
            next_step="make room there, or let TMPDIR of the workers name another disk: each task needs space for two segments. Then run again",
            host=socket.gethostname(),
            directory=where,
            doing=doing,
        ) from error
