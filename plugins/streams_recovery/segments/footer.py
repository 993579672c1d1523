"""What a segment's footer claims, compared with what this software writes and with what the manifest says of the file.

Parquet's reader takes memory by these claims, and ends the process at some that cannot be: so they are read here first, and it never sees the others.
Whether the pages keep to them is looked at when they are read, see ``CheckedSegment``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.segments.thrift import NotThrift, Reader, Struct

KEYS: Final = "headers.list.element.key"
HEADERS: Final = (KEYS, "headers.list.element.value")
_NUMBERS: Final = ("offset", "timestamp", "timestamp_type")
_RECORD: Final = ("key", "value")
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
_TYPES: Final = {"offset": _INT64, "timestamp": _INT64, "timestamp_type": _INT32} | dict.fromkeys((*_RECORD, *HEADERS), _BYTE_ARRAY)
# Plain, levels, and differences of numbers.
_ENCODINGS: Final = frozenset({0, 3, 5})
_ZSTD: Final = 6
_MAGIC_BYTES: Final = 4
_FOOTER_END: Final = 8
# A group is written when its rows have 32 MiB, and a row has more than 26 bytes.
_MOST_GROUP_ROWS: Final = 4 << 20
_MOST_HEADERS: Final = 128 << 20
# A number takes eight bytes at most, and the length of a key or a value four; what is left is for levels, blocks and headers of pages.
_BYTES_A_ROW: Final = 12
_BYTES_FREE: Final = 1 << 16
_BYTES_OF_A_LENGTH: Final = 4
_MOST: Final = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A column of a row group: where its pages begin, their bytes as they are stored and as they unpack, and how many values they have."""

    start: int
    packed: int
    unpacked: int
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A row group."""

    rows: int
    chunks: Mapping[str, Chunk]

    def unpacked(self, names: Iterable[str]) -> int:
        """Bytes of these columns in memory."""
        return sum(self.chunks[name].unpacked for name in names)


def groups_of(footer: bytes) -> list[Group]:
    """The row groups that a footer claims. Raises ``NotThrift`` for one that this software would not have written."""
    found = Reader(footer).struct()
    groups = [_group(one) for one in _structs(found, 4)]
    if _number(found, 3) != sum(group.rows for group in groups):
        raise NotThrift("its row groups have not as many rows as it claims")
    return groups


def _group(fields: Struct) -> Group:
    chunks = dict(_chunk(column) for column in _structs(fields, 1))
    if chunks.keys() != _TYPES.keys():
        raise NotThrift("it does not have the columns of a segment")
    return Group(rows=_number(fields, 3), chunks=chunks)


def _chunk(column: Struct) -> tuple[str, Chunk]:
    found = column.get(3)
    if not isinstance(found, dict) or 1 in column:
        raise NotThrift("it has a column that is in no file, or in another one")
    path = found.get(3)
    name = b".".join(one for one in path if isinstance(one, bytes)).decode("ascii", "replace") if isinstance(path, list) else ""
    encodings = found.get(2)
    known = isinstance(encodings, list) and all(isinstance(one, int) and one in _ENCODINGS for one in encodings)
    # The numbers are those of parquet.thrift. 10 and 11 are where pages of an index and of a dictionary begin: ours have neither.
    if _number(found, 1) != _TYPES.get(name) or _number(found, 4) != _ZSTD or not known or found.keys() & {10, 11}:
        raise NotThrift(f"it has a column {name[:60]!r} that is not as this software writes it")
    return name, Chunk(start=_number(found, 9), packed=_number(found, 7), unpacked=_number(found, 6), values=_number(found, 5))


def _structs(fields: Struct, number: int) -> list[Struct]:
    found = fields.get(number, [])
    if not isinstance(found, list):
        raise NotThrift(f"its field {number} is no list")
    structs = [one for one in found if isinstance(one, dict)]
    if len(structs) != len(found):
        raise NotThrift(f"its field {number} is no list of structs")
    return structs


def _number(fields: Struct, number: int) -> int:
    found = fields.get(number)
    if not isinstance(found, int) or not 0 <= found < _MOST:
        raise NotThrift(f"its field {number} is no number that can be")
    return found


def problem_of(group: Group, file: SegmentFile) -> str | None:
    """What is wrong with the claims of one row group, None when nothing is."""
    rows = group.rows
    if not 0 < rows <= _MOST_GROUP_ROWS:
        return f"has a row group of {rows} rows"
    for name, chunk in group.chunks.items():
        if (
            min(chunk.packed, chunk.unpacked) == 0
            or not _MAGIC_BYTES <= chunk.start <= chunk.start + chunk.packed <= file.bytes - _FOOTER_END
        ):
            return f"has a column {name} that is not within the file"
    free = _BYTES_FREE + _BYTES_A_ROW * rows
    limits = {(name,): free for name in _NUMBERS} | {_RECORD: 2 * free + file.payload_bytes, HEADERS: _MOST_HEADERS}
    for names, most in limits.items():
        if (claimed := group.unpacked(names)) > most:
            return f"has {rows} rows that claim {claimed} bytes in {' and '.join(names)}; by the manifest they have {most} at most"
    # Each header has a key, and each key a length.
    entries = rows + group.chunks[KEYS].unpacked // _BYTES_OF_A_LENGTH
    for name, chunk in group.chunks.items():
        if chunk.values > entries or (name not in HEADERS and chunk.values != rows):
            return f"has {rows} rows that claim {chunk.values} values in {name}"
    return None
