"""An object as a raw file, so that Python's own buffering makes it the file that Parquet readers expect."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


class ObjectFile(io.RawIOBase):
    """Reads ranges of one object. ``read_range`` gets key, start and end (exclusive)."""

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
