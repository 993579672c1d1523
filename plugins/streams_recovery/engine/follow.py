"""Following a job from where it was submitted: what its driver leaves about its progress is handed on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.storage.progress_file import read_progress

_LOOK_SECONDS: Final = 1.0


@contextmanager
def followed(path: Path, report: Callable[[JobProgress], object] | None, *, every: float = _LOOK_SECONDS) -> Iterator[None]:
    """Hand each new progress at ``path`` to ``report``, from a thread of its own, for as long as the block lasts."""
    if report is None:
        yield
        return
    over = threading.Event()
    follower = threading.Thread(target=_follow, args=(path, report, over, every), name="job-progress", daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()


def _follow(path: Path, report: Callable[[JobProgress], object], over: threading.Event, every: float) -> None:
    last: JobProgress | None = None
    while not over.wait(every):
        found = read_progress(path)
        if found is not None and found != last:
            report(found)
            last = found
