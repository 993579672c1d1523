"""What a segment's footer claims, compared with what this software writes and with what the manifest says of the file.

Parquet's reader takes memory by these claims. Whether the pages keep to them is looked at when they are read, see ``checked_segment``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from streams_recovery.core.manifest import SegmentFile

KEYS: Final = "headers.list.element.key"
HEADERS: Final = (KEYS, "headers.list.element.value")
_NUMBERS: Final = ("offset", "timestamp", "timestamp_type")
_RECORD: Final = ("key", "value")
_MAGIC_BYTES: Final = 4
_FOOTER_END: Final = 8
# A group is written when its rows have 32 MiB, and a row has more than 26 bytes.
_MOST_GROUP_ROWS: Final = 4 << 20
_MOST_HEADERS: Final = 128 << 20
# A number takes eight bytes at most, and the length of a key or a value four; what is left is for levels, blocks and headers of pages.
_BYTES_A_ROW: Final = 12
_BYTES_FREE: Final = 1 << 16
_BYTES_OF_A_LENGTH: Final = 4

Chunks = Mapping[str, Any]
"""Parquet's metadata of the columns of one row group, by their paths."""


def chunks_of(group: Any) -> dict[str, Any]:
    """The columns of a row group's metadata."""
    columns = (group.column(at) for at in range(group.num_columns))
    return {column.path_in_schema: column for column in columns}


def unpacked_bytes(chunks: Chunks, names: Iterable[str]) -> int:
    """What these columns unpack to, as it is claimed."""
    return sum(int(chunks[name].total_uncompressed_size) for name in names)


def problem_of(chunks: Chunks, rows: int, file: SegmentFile) -> str | None:
    """What is wrong with the claims of one row group, None when nothing is."""
    if not 0 < rows <= _MOST_GROUP_ROWS:
        return f"has a row group of {rows} rows"
    for name, chunk in chunks.items():
        if not _like_ours(chunk, file.bytes):
            return f"has a column {name} that is not where, or not as, this software writes it"
    free = _BYTES_FREE + _BYTES_A_ROW * rows
    limits = {(name,): free for name in _NUMBERS} | {_RECORD: 2 * free + file.payload_bytes, HEADERS: _MOST_HEADERS}
    for names, most in limits.items():
        if (claimed := unpacked_bytes(chunks, names)) > most:
            return f"has {rows} rows that claim {claimed} bytes in {' and '.join(names)}; by the manifest they have {most} at most"
    entries = rows + chunks[KEYS].total_uncompressed_size // _BYTES_OF_A_LENGTH
    for name, chunk in chunks.items():
        if chunk.num_values > entries or (name not in HEADERS and chunk.num_values != rows):
            return f"has {rows} rows that claim {chunk.num_values} values in {name}"
    return None


def _like_ours(chunk: Any, size: int) -> bool:
    start, packed, unpacked = chunk.data_page_offset, chunk.total_compressed_size, chunk.total_uncompressed_size
    inside = min(packed, unpacked) > 0 and _MAGIC_BYTES <= start <= start + packed <= size - _FOOTER_END
    return inside and chunk.compression == "ZSTD" and not chunk.has_dictionary_page and chunk.num_values >= 0
