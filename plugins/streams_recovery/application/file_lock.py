"""Locks on files: held by a process, gone with it, whatever happens to it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from streams_recovery.core.errors import ApplicationNotReady

_RETRY_SECONDS = 0.05


@contextlib.contextmanager
def held(path: Path, *, seconds: float) -> Iterator[int]:
    """Hold the lock on ``path``, waiting for it up to ``seconds``. The file descriptor may be inherited: then the lock lasts until the heir
    closes it too. Raises ``ApplicationNotReady``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while not _taken(handle):
            if time.monotonic() >= deadline:
                raise ApplicationNotReady(
                    f"another call has been starting or stopping this instance for {seconds:.0f} s",
                    next_step="wait for it to end, then try again",
                    lock=str(path),
                )
            time.sleep(_RETRY_SECONDS)
        yield handle
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """True when anybody holds the lock."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _taken(handle)
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
