"""Segments from the repository, checked before the first row is used."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from streams_recovery.core.errors import Damaged
from streams_recovery.core.manifest import SegmentFile
from streams_recovery.storage.repository import Repository

_CHUNK = 8 << 20


def archived_batches(repository: Repository, files: Sequence[SegmentFile]) -> Iterator[pa.RecordBatch]:
    """All rows of ``files``, in this order. Each file is fetched whole and its hash compared before one of its rows is handed out.

    Needs local space for the largest file, and memory for one batch. Raises ``Damaged`` naming the file.
    """
    # Parquet reading is shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.kafka.segments import read_segment  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="streams-recovery-") as directory:
        path = Path(directory) / "segment.parquet"
        for file in files:
            fetch(repository, file, path)
            rows = 0
            for batch in read_segment(path, where=file.key):
                rows += len(batch)
                yield batch
            if rows != file.rows:
                raise _damaged(file, f"has {rows} rows, not {file.rows}")


def fetch(repository: Repository, file: SegmentFile, path: Path) -> None:
    """Copy a segment to ``path``. Raises ``Damaged`` when it is not, byte for byte, what was written."""
    digest = hashlib.sha256()
    size = 0
    with contextlib.closing(repository.open(file.key)) as source, path.open("wb") as target:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            target.write(chunk)
    if size != file.bytes:
        raise _damaged(file, f"has {size} bytes, not {file.bytes}")
    if digest.hexdigest() != file.sha256:
        raise _damaged(file, f"has SHA-256 {digest.hexdigest()}, not {file.sha256}")


def _damaged(file: SegmentFile, what: str) -> Damaged:
    return Damaged(
        f"{file.key} {what}: offsets {file.first_offset} to {file.last_offset} cannot be trusted",
        next_step="restore this file from a copy of the repository, or choose another savepoint",
        key=file.key,
        first_offset=file.first_offset,
        last_offset=file.last_offset,
    )
