"""Archived records of a partition: ranges of offsets, each with the file of its records, and gaps.

Files are held as columns: a million of them in some 200 MB, and in a document as ten texts instead of ten million values.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Self, cast, overload

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.compaction_proof import Compaction

# Bytes of a SHA-256.
HASH: Final = 32
_DIGITS: Final = 2 * HASH
_HEX: Final = re.compile(r"(?:[0-9a-f]{64})*")
_INTEGERS: Final = re.compile(r"-?[0-9]{1,19}(?: -?[0-9]{1,19})*")
GONE_BEFORE: Final = "deleted by retention before it was copied"
GONE_MEANWHILE: Final = "deleted by retention while it was copied"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One immutable Parquet file. ``key`` is relative to the repository, and empty while the file is not stored. Timestamps are the true minimum and
    maximum, not first and last. ``payload_bytes`` counts keys and values: what a restore will have to send, headers and framing aside.
    ``largest_record`` is the most that one row has of keys, values and headers.
    """

    key: str
    bytes: int
    sha256: str
    rows: int
    first_offset: int
    last_offset: int
    min_timestamp: int
    max_timestamp: int
    payload_bytes: int
    largest_record: int

    @property
    def possible(self) -> bool:
        """False when no file can have these numbers, whatever is in it."""
        counted = 0 < self.rows <= self.last_offset - self.first_offset + 1
        return (
            counted
            and min(self.bytes, self.payload_bytes, self.largest_record, self.first_offset) >= 0
            and self.min_timestamp <= self.max_timestamp
        )

    def stored_as(self, key: str) -> SegmentFile:
        """A copy that says that the file is stored under ``key``."""
        return replace(self, key=key)

    def damaged(self, what: str) -> Damaged:
        """The error for a stored file that is not what this says of it."""
        return Damaged(
            f"{self.key} {what}: offsets {self.first_offset} to {self.last_offset} cannot be trusted",
            next_step="restore this file from a copy of the repository, or choose another savepoint",
            key=self.key,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
        )


NUMBERS: Final = tuple(field.name for field in fields(SegmentFile) if field.name not in ("key", "sha256"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRange:
    """The offsets ``[start, end)`` of one partition, read to the end. ``file`` is None when no readable record was there:
    transaction markers, aborted records and compacted-away records take offsets but are no rows. From a ``compacted``
    range rows are missing that later rows replace, in it or in compacted ranges behind it: together they are the same state, not the same log.
    """

    start: int
    end: int
    file: SegmentFile | None
    compacted: Compaction | None = None

    def __post_init__(self) -> None:
        inside = self.file is None or self.start <= self.file.first_offset <= self.file.last_offset < self.end
        if not (0 <= self.start < self.end and inside):
            raise Damaged(
                f"copied range [{self.start}, {self.end}) does not fit its file {self.file}",
                next_step="do not use this savepoint; verify the repository",
            )
        if self.file is not None and not self.file.key:
            raise Damaged(
                f"the file of copied range [{self.start}, {self.end}) is not stored",
                next_step="do not use this savepoint; verify the repository",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets ``[start, end)`` that were gone before they could be copied."""

    start: int
    end: int
    reason: str

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise Damaged(f"[{self.start}, {self.end}) is no gap", next_step="do not use this savepoint; verify the repository")


def joined(pieces: Iterable[CopiedRange]) -> tuple[CopiedRange, ...]:
    """Copied ranges of a partition in offset order. Adjacent ranges without a record are merged, so that idle hours add no ranges."""
    merged: list[CopiedRange] = []
    for piece in sorted(pieces, key=lambda one: one.start):
        last = merged[-1] if merged else None
        idle = last and piece.file is None and last.file is None and last.end == piece.start and last.compacted == piece.compacted
        merged.append(replace(piece, start=merged.pop().start) if idle else piece)
    return tuple(merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """The stored form of ``SegmentFiles``, with the files in the same order in all fields. ``keys`` are below ``directory``, each on a line of its own,
    ``sha256`` are 64 digits each, and numbers are separated by blanks. Raises ``Damaged`` for fields that do not fit each other.
    """

    directory: str
    keys: str
    sha256: str
    bytes: str
    rows: str
    first_offset: str
    last_offset: str
    min_timestamp: str
    max_timestamp: str
    payload_bytes: str
    largest_record: str

    def __post_init__(self) -> None:
        count, rest = divmod(len(self.sha256), _DIGITS)
        columns = [getattr(self, name) for name in NUMBERS]
        if not count:
            fits = not any((self.directory, self.keys, *columns))
        else:
            numbered = all(column.count(" ") == count - 1 and _INTEGERS.fullmatch(column) for column in columns)
            fits = numbered and self.keys.count("\n") == count - 1
        if rest or not fits or not _HEX.fullmatch(self.sha256):
            raise Damaged(
                f"the columns of {count} files do not fit each other", next_step="make it again: this software writes no such thing"
            )


class SegmentFiles(codec.StoredAs, Sequence[SegmentFile]):
    """The files of one partition in the order of offsets, immutable. A ``SegmentFile`` is created when one is read."""

    __slots__ = ("_hashes", "_keys", "_numbers")
    stored_kind = StoredFiles

    def __init__(self, keys: Sequence[str], hashes: bytes, numbers: dict[str, array[int]]) -> None:
        """``hashes`` has 32 bytes for each of ``keys``, and ``numbers`` a column for each name in ``NUMBERS``."""
        self._keys, self._hashes, self._numbers = keys, hashes, numbers

    @classmethod
    def of(cls, files: Iterable[SegmentFile]) -> SegmentFiles:
        """The columns of these files. Raises ``Damaged`` for one whose key or hash no segment can have: it would be taken for another one when it is
        read back.
        """
        if isinstance(files, SegmentFiles):
            return files
        several = list(files)
        for file in several:
            if "\n" in file.key or len(file.sha256) != _DIGITS:
                raise file.damaged("has a key or a hash that no segment has")
        numbers = {name: array("q", [getattr(file, name) for file in several]) for name in NUMBERS}
        return cls([file.key for file in several], b"".join(bytes.fromhex(file.sha256) for file in several), numbers)

    @property
    def rows(self) -> int:
        return sum(self._numbers["rows"])

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values in all of them."""
        return sum(self._numbers["payload_bytes"])

    @property
    def keys(self) -> Sequence[str]:
        return self._keys

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, at: int) -> SegmentFile: ...
    @overload
    def __getitem__(self, at: slice) -> SegmentFiles: ...
    def __getitem__(self, at: int | slice) -> SegmentFile | SegmentFiles:
        if isinstance(at, slice):
            return SegmentFiles.of(self[one] for one in range(*at.indices(len(self))))
        at = range(len(self))[at]
        return SegmentFile(
            key=self._keys[at],
            sha256=self._hashes[HASH * at : HASH * (at + 1)].hex(),
            **{name: column[at] for name, column in self._numbers.items()},
        )

    def __iter__(self) -> Iterator[SegmentFile]:
        return (self[at] for at in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SegmentFiles):
            return NotImplemented
        return (self._hashes, self._numbers, list(self._keys)) == (other._hashes, other._numbers, list(other._keys))

    def __hash__(self) -> int:
        return hash(self._hashes)

    def __repr__(self) -> str:
        return f"SegmentFiles({len(self)} files with {self.rows} rows)"

    def to_stored(self) -> StoredFiles:
        """The columns as texts."""
        directory = _directory(self._keys)
        return StoredFiles(
            directory=directory,
            keys="\n".join(key[len(directory) :] for key in self._keys),
            sha256=self._hashes.hex(),
            **{name: " ".join(map(str, column)) for name, column in self._numbers.items()},
        )

    @classmethod
    def from_stored(cls, stored: object) -> Self:
        """The inverse of ``to_stored``. Raises ``Damaged`` for numbers of more than 64 bits."""
        columns = cast("StoredFiles", stored)
        try:
            numbers = {name: array("q", map(int, getattr(columns, name).split())) for name in NUMBERS}
        except OverflowError:
            raise Damaged(
                "a number of a file has more than 64 bits", next_step="make it again: this software writes no such thing"
            ) from None
        keys = [columns.directory + name for name in columns.keys.split("\n")] if columns.sha256 else []
        return cls(keys, bytes.fromhex(columns.sha256), numbers)


def _directory(keys: Sequence[str]) -> str:
    """The beginning of all keys, up to a slash: the files of a partition are in one place."""
    if not keys:
        return ""
    shared = keys[0][: keys[0].rfind("/") + 1]
    return shared if all(key.startswith(shared) for key in keys) else ""
