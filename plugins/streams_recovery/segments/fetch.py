"""A segment copied to this machine, and proven to be what was written."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import BinaryIO

from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.storage.repository import Repository

_CHUNK = 8 << 20


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
