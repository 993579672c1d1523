"""Objects as bytes: read in ranges, mapped, compressed. And files that processes of one machine leave for each other.

Manifests and range tables are stored as one zstd frame that says how much it unpacks to, and unpacks to no more than its size makes likely.

A job's submitter leaves the order for a driver that was started before there was one. The driver leaves the receipt, which tells what became of the job.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import zstandard

from streams_recovery.core import codec
from streams_recovery.core.codec import MOST_BYTES, MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import JobReceipt

T = TypeVar("T")


class ObjectFile(io.RawIOBase):
    """An object as a raw file: Python's own buffering makes it the file that Parquet readers expect. ``read_range`` gets key, start and end (exclusive)."""

    def __init__(self, read_range: Callable[[str, int, int], bytes], key: str, size: int) -> None:
        self._read_range = read_range
        self._key = key
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """True: that is all it can do."""
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position. Behind the end is allowed and reads nothing there."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"position {start + offset} is before the beginning of {self._key}")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` from the position on; fewer bytes only at the end of the object."""
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self._size)
        count = end - self._position
        if count <= 0:
            return 0
        view[:count] = self._read_range(self._key, self._position, end)
        self._position = end
        return count


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
        # A request that was interrupted may still hold the buffer; its last holder closes it.
        with contextlib.suppress(BufferError):
            view.close()


def _give_back(view: mmap.mmap, done: threading.Event) -> None:
    # The system would take these pages when it needs them. What watches a process and kills it for its size does not know that.
    while not done.wait(_GIVEN_BACK_EVERY_SECONDS):
        view.madvise(mmap.MADV_DONTNEED)


_LEVEL: Final = 9
# A manifest that names files shrinks by 5 to 9, for most of it is hashes; one of empty partitions by 100.
_LIKELY_RATIO: Final = 16
_BEST_RATIO: Final = 256
_SMALL: Final = 1 << 20
_MOST_AT_BEST_RATIO: Final = 32 << 20
MOST_PACKED: Final = 128 << 20


def packed(plain: bytes) -> bytes:
    """One frame with its size and a checksum."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True).compress(plain)


def unpacked(data: bytes, key: str, what: str = "manifest") -> bytes:
    """Undo ``packed``. ``key`` names the object in errors. Takes memory for the result only once its size was found to be likely. Raises
    ``Damaged``.
    """
    most, why = most_unpacked(len(data)), ""
    try:
        # The library believes this number: it takes so much memory before it unpacks the first byte.
        size = zstandard.frame_content_size(data)
        if size < 0:
            why = "it does not say how many bytes it unpacks to"
        elif size > most:
            why = f"it would unpack to {size} bytes, and no {what} of {len(data)} bytes has more than {most}"
        else:
            # By default the library passes over whatever follows the frame.
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=most, allow_extra_data=False)
    except zstandard.ZstdError as error:
        why = str(error)
    raise Damaged(
        f"{key} is not a compressed {what}: {why}",
        next_step="choose another savepoint; put this one back from a copy if there is one, and find out who wrote it",
        key=key,
    )


def most_unpacked(size: int) -> int:
    """The most bytes that a frame of this size may unpack to."""
    return min(MOST_BYTES, max(_LIKELY_RATIO * size, min(_MOST_AT_BEST_RATIO, _SMALL + _BEST_RATIO * size)))


def write_local(path: Path, value: object) -> None:
    """Leave a value for another process of this machine, whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(codec.dumps(value))
    unfinished.replace(path)


def read_local(kind: type[T], path: Path, *, most_bytes: int = MOST_BYTES_OF_ENTRY) -> T | None:
    """The value that another process has left, None while there is none. Raises ``Damaged``."""
    try:
        return codec.loads(kind, path.read_bytes(), where=str(path), most_bytes=most_bytes)
    except FileNotFoundError:
        return None


def read_receipt(path: Path) -> JobReceipt | None:
    """The receipt that a job has left, None when it left none."""
    return read_local(JobReceipt, path)
