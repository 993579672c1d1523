"""A segment opened with limits: nothing that it claims of itself is believed before it was looked at.

Parquet's reader takes memory by the claims of a footer, and ends the process at some that cannot be. So a footer is read here first, and compared with what
this software writes and with the manifest's entry for the file. The reader also takes memory for whatever size a page claims, and zstd fills it from next to
nothing. So the headers of pages are read first too: sizes, the number of values, the encoding.

Of an encrypted segment the footer is decrypted here, and looked at in the same way. Its pages are not: who has no key could not have written one, so each is
one of this software's as soon as it is decrypted. What its statistics say of offsets and timestamps tells it from another one of the same key and size.

Both are Thrift's compact encoding. It is read without believing it: memory is bounded by the bytes there are. Read are only structs, lists, numbers and texts:
headers and footers of Parquet files have nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.encryption import NO_KEYS, DataKey, SegmentKeys
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.segments.schema import check_schema

Value: TypeAlias = "int | bytes | list[Value] | Struct"
Struct: TypeAlias = dict[int, Value]

# Thrift: kinds of values, limits, and bits of numbers.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
_DEEPEST: Final = 8
# A struct of a footer has thirty bytes and more.
_STRUCTS_FREE: Final = 64
_BYTES_A_STRUCT: Final = 16
_LONG: Final = 15
_MORE: Final = 0x80

# Columns and encodings, by the numbers of parquet.thrift.
KEYS: Final = "headers.list.element.key"
HEADERS: Final = (KEYS, "headers.list.element.value")
_NUMBERS: Final = ("offset", "timestamp", "timestamp_type")
_RECORD: Final = ("key", "value")
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
_TYPES: Final = {"offset": _INT64, "timestamp": _INT64, "timestamp_type": _INT32} | dict.fromkeys((*_RECORD, *HEADERS), _BYTE_ARRAY)
PLAIN: Final = 0
_LEVELS: Final = 3
DELTA_BINARY_PACKED: Final = 5
_ENCODINGS: Final = frozenset({PLAIN, _LEVELS, DELTA_BINARY_PACKED})
_CHECKED_ENCODINGS: Final = {"offset": DELTA_BINARY_PACKED, "timestamp": DELTA_BINARY_PACKED}
# The root, six columns, and a list of pairs within the last one.
_SCHEMA_PARTS: Final = 11
_ZSTD: Final = 6
_DATA_PAGE: Final = 0

# The file and its row groups.
_MAGIC: Final = b"PAR1"
_MAGIC_ENCRYPTED: Final = b"PARE"
# AES in GCM, as encryption of Parquet lays it down: length, nonce, and the tag behind what is encrypted. 0 is the number of a footer among modules.
_LENGTH, _NONCE, _FOOTER_MODULE = 4, 12, b"\0"
_FOOTER_END: Final = 8
# Of 4,000 row groups.
_MOST_FOOTER: Final = 4 << 20
_MOST_TEXT: Final = 1 << 16
_MOST_OF_A_KIND: Final = 1 << 17
# A group is written when its rows have 32 MiB, and a row has more than 26 bytes.
_MOST_GROUP_ROWS: Final = 4 << 20
_MOST_HEADERS: Final = 128 << 20
# A number takes eight bytes at most, and the length of a key or a value four; what is left is for levels, blocks and headers of pages.
_BYTES_A_ROW: Final = 12
_BYTES_FREE: Final = 1 << 16
_BYTES_OF_A_LENGTH: Final = 4
_MOST: Final = 2**63
_MOST_PAGES: Final = 1 << 16
# Sizes, counts and two statistics of eight bytes: a header of ours has less than a hundred.
_LONGEST_HEADER: Final = 1 << 10


class CheckedSegment:
    """The row groups of one segment, whose footer was found to be one of this software for this ``file`` of a manifest."""

    def __init__(self, parquet: pq.ParquetFile, handle: BinaryIO, groups: list[Group], file: SegmentFile, *, encrypted: bool) -> None:
        self._parquet, self._handle, self._groups, self._file, self._encrypted = parquet, handle, groups, file, encrypted
        self.rows = [group.rows for group in groups]

    def unpacked(self, group: int, columns: Collection[str]) -> int:
        """Bytes in memory of these columns of one row group."""
        return self._groups[group].unpacked(_leaves(columns))

    def batches(self, group: int, columns: Collection[str], *, rows: int) -> Iterator[pa.RecordBatch]:
        """These columns of one row group, in batches of so many rows. Raises ``Damaged``."""
        for name in () if self._encrypted else _leaves(columns):
            self._check_pages(name, self._groups[group])
        with _as_damage(self._file):
            for batch in self._parquet.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False):
                # Full: anything less does not look whether the keys of headers are UTF-8.
                batch.validate(full=True)
                yield batch

    def _check_pages(self, name: str, group: Group) -> None:
        chunk = group.chunks[name]
        found = pages(self._read_at, chunk.start, chunk.start + chunk.packed)
        try:
            check_pages(found, _CHECKED_ENCODINGS.get(name, PLAIN), Totals(chunk.values, chunk.unpacked))
        except NoPage as error:
            raise self._file.damaged(f"has a column {name} that cannot be read: {error}") from None

    def _read_at(self, start: int, count: int) -> bytes:
        self._handle.seek(start)
        return self._handle.read(count)


@contextmanager
def open_segment(handle: BinaryIO, file: SegmentFile, keys: SegmentKeys = NO_KEYS, *, path: Path | None = None) -> Iterator[CheckedSegment]:
    """The segment in a seekable file, which at ``path`` is read faster. Takes memory for its footer only. Raises ``Damaged``, and ``KeyUnavailable`` for an
    encrypted one without its key among ``keys``.
    """
    key = keys.of(file.key)
    groups = _claimed(handle, file, key)
    with _as_damage(file):
        parquet = pq.ParquetFile(
            handle if path is None else path,
            page_checksum_verification=True,
            pre_buffer=False,
            thrift_string_size_limit=_MOST_TEXT,
            thrift_container_size_limit=_MOST_OF_A_KIND,
            decryption_properties=None if key is None else encryption_of_parquet().create_decryption_properties(key.secret),
        )
    with parquet:
        with _as_damage(file):
            check_schema(parquet.schema_arrow, where=file.key)
        yield CheckedSegment(parquet, handle, groups, file, encrypted=key is not None)


def encrypted_with(key: DataKey | None) -> object:
    """The property of a Parquet writer that encrypts footer and columns with ``key``; None without one."""
    return None if key is None else encryption_of_parquet().create_encryption_properties(key.secret)


def encryption_of_parquet() -> Any:
    """The part of Arrow that encrypts with a key that it is given. Raises ``ConfigInvalid`` for an Arrow that is older, or was built without."""
    try:
        from pyarrow.parquet import encryption  # noqa: PLC0415  # not in every build

        _ = encryption.create_encryption_properties
    except (ImportError, AttributeError):
        raise ConfigInvalid(
            f"pyarrow {pa.__version__} cannot encrypt Parquet with a key that it is given",
            next_step="install the version of requirements.txt where runs and Spark's workers are, or leave out storage.encryption",
        ) from None
    return encryption


def _claimed(handle: BinaryIO, file: SegmentFile, key: DataKey | None) -> list[Group]:
    try:
        footer = _footer(handle, file, _MAGIC if key is None else _MAGIC_ENCRYPTED)
        groups = groups_of(footer if key is None else _decrypted(footer, key, file))
    except NotThrift as error:
        raise file.damaged(f"has no footer of a segment, it cannot be read: {error}") from None
    if (rows := sum(group.rows for group in groups)) != file.rows:
        raise file.damaged(f"has rows {rows}, not {file.rows}")
    for group in groups:
        if problem := problem_of(group, file):
            raise file.damaged(problem)
    # Of a file in clear they are anybody's words.
    numbers = (
        {} if key is None else {"offset": (file.first_offset, file.last_offset), "timestamp": (file.min_timestamp, file.max_timestamp)}
    )
    for name, claimed in numbers.items():
        bounds = [bound for group in groups for bound in group.chunks[name].bounds]
        if (min(bounds, default=None), max(bounds, default=None)) != claimed:
            raise file.damaged(f"is that of another range: its {name}s are not from {claimed[0]} to {claimed[1]}")
    return groups


def _decrypted(footer: bytes, key: DataKey, file: SegmentFile) -> bytes:
    """The footer within what the end of an encrypted file has: the algorithm with eight bytes of this file alone, then the footer."""
    # Slow to import, and most segments are in clear.
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # only where a file is encrypted
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # slow to import

    reader = Reader(footer)
    algorithm = reader.struct().get(1)
    gcm = algorithm.get(1) if isinstance(algorithm, dict) else None
    unique = gcm.get(2) if isinstance(gcm, dict) else None
    if not isinstance(unique, bytes):
        raise NotThrift("it is not encrypted as this software encrypts")
    begin = reader.at + _LENGTH
    nonce, sealed = footer[begin : begin + _NONCE], footer[begin + _NONCE :]
    try:
        return AESGCM(key.secret).decrypt(nonce, sealed, unique + _FOOTER_MODULE)
    except (InvalidTag, ValueError):
        raise file.damaged(f"cannot be decrypted with {key.key_id}: it was changed, or encrypted with another key") from None


def _footer(handle: BinaryIO, file: SegmentFile, magic: bytes) -> bytes:
    size = handle.seek(0, os.SEEK_END)
    if size != file.bytes:
        raise file.damaged(f"has {size} bytes, not {file.bytes}")
    handle.seek(max(0, size - _FOOTER_END))
    end = handle.read(_FOOTER_END)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != magic or length > min(_MOST_FOOTER, size - _FOOTER_END):
        raise file.damaged(f"claims a footer of {length} bytes, or has none: it cannot be read")
    handle.seek(size - _FOOTER_END - length)
    return handle.read(length)


def _leaves(columns: Collection[str]) -> list[str]:
    return [leaf for name in columns for leaf in (HEADERS if name == "headers" else (name,))]


@contextmanager
def _as_damage(file: SegmentFile) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        # A fault of this machine, not of the file: Arrow's own error is of both classes.
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise file.damaged(f"cannot be read: {str(error)[:300]}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A column of a row group: where its pages begin, their bytes as they are stored and as they unpack, and how many values they have. ``bounds`` are the
    least and the greatest one by its statistics, if it has numbers of 64 bits.
    """

    start: int
    packed: int
    unpacked: int
    values: int
    bounds: tuple[int, ...] = ()


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
    if len(_structs(found, 2)) != _SCHEMA_PARTS:
        # Up to version 23 at least, Arrow ends the process at a schema that is some thousand levels deep.
        raise NotThrift("its schema has not the parts of that of a segment")
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
    statistics = found.get(12)
    # The greatest value is 5, the least one 6.
    ends = [statistics.get(number) for number in (6, 5)] if isinstance(statistics, dict) and _TYPES[name] == _INT64 else []
    bounds = tuple(int.from_bytes(one, "little", signed=True) for one in ends if isinstance(one, bytes))
    return name, Chunk(
        start=_number(found, 9), packed=_number(found, 7), unpacked=_number(found, 6), values=_number(found, 5), bounds=bounds
    )


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
    """The problem with the claims of one row group, None when there is none."""
    rows = group.rows
    if not 0 < rows <= _MOST_GROUP_ROWS:
        return f"has a row group of {rows} rows"
    for name, chunk in group.chunks.items():
        if (
            min(chunk.packed, chunk.unpacked) == 0
            or not len(_MAGIC) <= chunk.start <= chunk.start + chunk.packed <= file.bytes - _FOOTER_END
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: ``size`` includes its header, and ``unpacked`` counts it too, as a file's footer does. ``encoding`` is that of the values."""

    kind: int
    size: int
    unpacked: int
    values: int
    encoding: int


class Totals(NamedTuple):
    """The values and bytes of a column in all its pages."""

    values: int
    unpacked: int


class NoPage(ValueError):
    """Raised where no header of a page is that this software would have written."""


def pages(read_at: Callable[[int, int], bytes], start: int, end: int) -> Iterator[Page]:
    """The pages in the bytes ``[start, end)`` of a file. Raises ``NoPage``."""
    at = start
    while at < end:
        page = _page(read_at(at, min(_LONGEST_HEADER, end - at)))
        at += page.size
        if at > end:
            raise NoPage(f"a page ends {at - end} bytes behind its column")
        yield page


def check_pages(found: Iterable[Page], encoding: int, claimed: Totals) -> None:
    """Raise ``NoPage`` unless these are pages of this encoding, with the claimed values and bytes in all."""
    totals = Totals(0, 0)
    for number, page in enumerate(found):
        totals = Totals(totals.values + page.values, totals.unpacked + page.unpacked)
        if page.kind != _DATA_PAGE or page.encoding != encoding or number == _MOST_PAGES:
            raise NoPage("a page is not as this software writes it")
        if totals.values > claimed.values or totals.unpacked > claimed.unpacked:
            break
    if totals != claimed:
        raise NoPage(
            f"its pages have {totals.values} values in {totals.unpacked} bytes, the footer claims {claimed.values} in {claimed.unpacked}"
        )


def _page(data: bytes) -> Page:
    reader = Reader(data)
    try:
        fields = reader.struct()
    except NotThrift as error:
        raise NoPage(f"a page has no header: {error}") from None
    data_page = fields.get(5)
    if not isinstance(data_page, dict):
        raise NoPage("a page is no data page of the first version")
    found = [fields.get(1), fields.get(2), fields.get(3), data_page.get(1), data_page.get(2)]
    kind, unpacked, packed, values, encoding = (one if isinstance(one, int) else -1 for one in found)
    if min(kind, unpacked, packed, values, encoding) < 0:
        raise NoPage("the header of a page has no size or no encoding")
    return Page(kind=kind, size=reader.at + packed, unpacked=reader.at + unpacked, values=values, encoding=encoding)


class Reader:
    """Reads structs from the beginning of ``data``; ``at`` is where the last one ended."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._structs = _STRUCTS_FREE + len(data) // _BYTES_A_STRUCT

    def struct(self, depth: int = _DEEPEST) -> Struct:
        """A struct's values by the numbers of their fields. Raises ``NotThrift``."""
        self._structs -= 1
        if depth == 0 or self._structs < 0:
            raise NotThrift("it is nested too deep, or has too many parts")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in fields:
                raise NotThrift(f"it has field {number} twice")
            kind = head & 0x0F
            fields[number] = 2 - kind if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Value:
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _STRUCT:
            return self.struct(depth - 1)
        if kind == _LIST:
            return self._list(depth)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind in (_DOUBLE, _BINARY):
            return self._bytes(8 if kind == _DOUBLE else self._unsigned())
        raise NotThrift(f"it has a value of kind {kind}")

    def _list(self, depth: int) -> Value:
        head = self._byte()
        count = self._unsigned() if head >> 4 == _LONG else head >> 4
        if count > len(self._data) - self.at:
            raise NotThrift("it has a list that is longer than it")
        return [self._value(head & 0x0F, depth) for _ in range(count)]

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def _unsigned(self) -> int:
        found = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            found |= (byte & ~_MORE) << shift
            if byte < _MORE:
                return found
        raise NotThrift("it has a number of more than 64 bits")

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        found = self._data[self.at : self.at + count]
        if len(found) < count:
            raise NotThrift("it has no end")
        self.at += count
        return found


class NotThrift(ValueError):
    """Raised for bytes that are no struct, or one that this software would not have written."""
