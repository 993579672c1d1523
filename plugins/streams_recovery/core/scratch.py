"""Directories that a process needs for a while, with records or secrets in them. What a killed process left goes when the next one needs a directory.

Whoever uses one holds a lock on it (``flock``), which ends with the process, however that ends. One without a lock is nobody's.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Far longer than a process takes from making a directory to its lock.
_SECONDS: Final = 60.0
# By room: when this process last looked there.
_looked: dict[str, float] = {}


@contextmanager
def scratch() -> Iterator[Path]:
    """A new directory below TMPDIR that only this user can read, gone at the end of the block. Raises ``OSError``."""
    prefix = _prefix()
    room = tempfile.gettempdir()
    if time.monotonic() - _looked.get(room, -_SECONDS) >= _SECONDS:
        _looked[room] = time.monotonic()
        _remove_left(Path(room), prefix)
    # A driver that stops removes its own files there too. What is left by that goes with what killed processes leave.
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as directory, _held(Path(directory)):
        yield Path(directory)


def _prefix() -> str:
    # A directory for temporary files may be another machine's too, where locks may not be seen.
    return f"streams-recovery-{hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]}-"


@contextmanager
def _held(directory: Path) -> Iterator[None]:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Where the file system has no locks, nobody gets one, and nothing is removed.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _remove_left(room: Path, prefix: str) -> None:
    """Remove directories of this user and this machine that nobody holds. What cannot be looked at stays."""
    name = re.compile(rf"{re.escape(prefix)}[a-z0-9_]{{8}}")
    with contextlib.suppress(OSError):
        for path in [Path(one.path) for one in os.scandir(room) if name.fullmatch(one.name)]:
            with contextlib.suppress(OSError):
                _remove_unless_held(path)


def _remove_unless_held(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != stat.S_IRWXU or time.time() - found.st_mtime < _SECONDS:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
