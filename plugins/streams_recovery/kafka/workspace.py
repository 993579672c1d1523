"""Where a task keeps the file it works on."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams_recovery.core.errors import TransientError


@contextmanager
def workspace(doing: str) -> Iterator[Path]:
    """A directory of its own on this machine's disk, gone at the end. Nothing in it is ever needed again: what counts is in the repository.

    An error of that disk (full, gone, not writable) becomes a ``TransientError`` that names machine, directory and what was being done.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="streams-recovery-") as directory:
            yield Path(directory)
    except OSError as error:
        where = tempfile.gettempdir()
        raise TransientError(
            f"{socket.gethostname()} cannot keep a file in {where} while {doing}: {error.strerror or error}",
            next_step="make room there, or let TMPDIR of the workers name another disk: each task needs space for two segments. Then run again",
            host=socket.gethostname(),
            directory=where,
            doing=doing,
        ) from error
