"""A file as one buffer that does not take its size in memory."""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections.abc import Iterator
from pathlib import Path

_GIVEN_BACK_EVERY_SECONDS = 0.05


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The file's bytes, read from disk as they are looked at and given back to the system soon after. The file must not change meanwhile."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield b""
            return
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    done = threading.Event()
    giver = threading.Thread(target=_give_back, args=(view, done), name="give-back", daemon=True)
    giver.start()
    try:
        yield view
    finally:
        done.set()
        giver.join()
        # A request that was interrupted may still hold the buffer; whoever lets go of it last closes it.
        with contextlib.suppress(BufferError):
            view.close()


def _give_back(view: mmap.mmap, done: threading.Event) -> None:
    # The system would take these pages when it needs them. What watches a process and kills it for its size does not know that.
    while not done.wait(_GIVEN_BACK_EVERY_SECONDS):
        view.madvise(mmap.MADV_DONTNEED)
