"""Manifests and range tables as they are stored: one zstd frame that says how much it unpacks to, and unpacks to no more than its size makes likely."""

from __future__ import annotations

from typing import Final

import zstandard

from streams_recovery.core.bounded_json import MOST_BYTES
from streams_recovery.core.errors import Damaged

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
    """What ``packed`` was given. ``key`` names the object in errors. Takes memory for the result only once its size was found to be likely. Raises
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
