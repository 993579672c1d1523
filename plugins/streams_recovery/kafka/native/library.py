"""The library of our own compiled functions (``gather.c``), and those that hash rows: they need no librdkafka."""

from __future__ import annotations

import ctypes as c
import functools
import hashlib
import os
import pkgutil
import platform
from pathlib import Path
from typing import Any, Final

# Set to "off": every record goes by Python objects, and rows are hashed by numpy.
SWITCH: Final = "STREAMS_RECOVERY_NATIVE"
_POINTER = c.c_void_p


class NativeUnusable(Exception):
    """The reason why the compiled way is not taken in this process."""


class RowHashes:
    """Hashes of rows that begin at ``starts`` in ``data`` and are so long. All are contiguous arrays of numpy, and ``out`` gets the hashes. None of them holds
    Python's lock.
    """

    def __init__(self, ours: c.CDLL) -> None:
        self._murmur2, self._nh, self._both = ours.sr_murmur2, ours.sr_nh, ours.sr_both
        self._murmur2.restype = self._nh.restype = self._both.restype = None
        self._murmur2.argtypes = [_POINTER, _POINTER, _POINTER, c.c_int64, _POINTER]
        self._nh.argtypes = [_POINTER, _POINTER, _POINTER, c.c_int64, _POINTER, c.c_int64, _POINTER]
        self._both.argtypes = [_POINTER, c.c_int64, _POINTER, c.c_int64, c.c_int64, _POINTER, _POINTER]

    def murmur2(self, data: Any, starts: Any, lengths: Any, out: Any) -> None:
        """32 bits a row."""
        self._murmur2(data.ctypes.data, starts.ctypes.data, lengths.ctypes.data, len(starts), out.ctypes.data)

    def nh(self, data: Any, starts: Any, lengths: Any, keys: Any, out: Any) -> None:
        """Two times 64 bits a row. ``keys`` are two rows of 64 bits for each of both, as long as the longest row."""
        self._nh(data.ctypes.data, starts.ctypes.data, lengths.ctypes.data, len(starts), keys.ctypes.data, keys.shape[-1], out.ctypes.data)

    def both(self, one: Any, other: Any, odd: Any, out: Any) -> None:
        """Two times 64 bits a row, of one number or two in each of ``one`` and ``other``."""
        of_one, of_other = one.shape[1], other.shape[1]
        self._both(one.ctypes.data, of_one, other.ctypes.data, of_other, len(one), odd.ctypes.data, out.ctypes.data)


def row_hashes() -> RowHashes | None:
    """The compiled hashes; None where there are none, and numpy has to do it."""
    return None if os.environ.get(SWITCH) == "off" else _loaded()


@functools.cache
def _loaded() -> RowHashes | None:
    try:
        return RowHashes(ours())
    except (NativeUnusable, OSError, AttributeError):
        return None


def ours() -> c.CDLL:
    """The library. Raises ``NativeUnusable`` or ``OSError`` where there is none that was compiled from the source beside it."""
    name = library_name(platform.machine())
    path = Path(__file__).with_name(name)
    if path.is_file():
        library = c.CDLL(str(path))
    # Spark gives its workers the package as a zip, from which nothing can be loaded; a file without a name needs no directory that may be written to.
    elif not hasattr(os, "memfd_create"):
        raise NativeUnusable("this Python was built without memfd_create, which a library out of a zip needs")
    else:
        handle = os.memfd_create(name)
        try:
            os.write(handle, _carried(name))
            library = c.CDLL(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
    library.sr_source.restype = c.c_uint64
    if library.sr_source() != source_number(_carried("gather.c")):
        raise NativeUnusable("it was compiled from another source: install this package again")
    return library


def source_number(source: bytes) -> int:
    """The number by which the compiled library names its source."""
    return int.from_bytes(hashlib.sha256(source).digest()[:8], "big")


def library_name(machine: str) -> str:
    """The file of the library for such a machine, as ``platform.machine()`` calls it. With a version, so that Python does not take it for a module."""
    return f"gather-{machine}.so.1"


def _carried(name: str) -> bytes:
    try:
        data = pkgutil.get_data(__package__, name)
    except OSError:
        data = None
    if data is None:
        raise NativeUnusable(f"this installation has no {name}")
    return data
