"""A segment copied to this machine, and proven to be what was written."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from streams_recovery.core.errors import Damaged
from streams_recovery.core.manifest import SegmentFile
from streams_recovery.storage.repository import Repository

_CHUNK = 8 << 20


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
        raise damaged(file, f"has {size} bytes, not {file.bytes}")
    if digest.hexdigest() != file.sha256:
        raise damaged(file, f"has SHA-256 {digest.hexdigest()}, not {file.sha256}")


def damaged(file: SegmentFile, what: str) -> Damaged:
    """The error for a segment that is not what its manifest says."""
    return Damaged(
        f"{file.key} {what}: offsets {file.first_offset} to {file.last_offset} cannot be trusted",
        next_step="restore this file from a copy of the repository, or choose another savepoint",
        key=file.key,
        first_offset=file.first_offset,
        last_offset=file.last_offset,
    )
