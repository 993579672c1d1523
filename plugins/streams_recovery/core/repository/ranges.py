"""The ranges of a partition in a manifest: read, or named by the tables that hold them.

A manifest says of each partition what most readers need, so that they need none of its ranges. Ranges that were read are held as columns: a million of them
in some 200 MB, and each becomes a value only when it is asked for. A topic has few tables, and what is written again stays logarithmic.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from operator import add, le, sub
from typing import Final, Self, cast, overload

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.segment_file import HASH, CopiedRange, SegmentFile

# Bytes of a segment besides its rows.
_FILE_OVERHEAD_BYTES: Final = 8_192
FILE, COMPACTED = 1, 2
NUMBERS: Final = ("start", "end", "first", "last", "rows", "bytes", "payload_bytes", "largest_record", "min_timestamp", "max_timestamp")
_ENDING: Final = ".parquet"
ATTEMPT: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,199}")
_HALF: Final = 1 << 63
_IS_FILE: Final = bytes(flag & FILE for flag in range(256))
MOST_TABLES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFacts:
    """Facts of ``ranges`` ranges from ``start`` to ``end`` (None when there is none), with so many files and rows and ``bytes`` as they are stored.
    ``payload_a_row`` and ``bytes_a_row`` are the largest means over one file: of keys and values, and of the stored bytes. ``largest_record`` is that of
    the file that has the largest one. ``min_timestamp`` is None without a file. ``savepoints`` have added files since it was last copied from its beginning.
    """

    start: int | None
    end: int | None
    ranges: int
    files: int
    rows: int
    bytes: int
    payload_a_row: int
    bytes_a_row: int
    largest_record: int
    min_timestamp: int | None
    savepoints: int

    @property
    def possible(self) -> bool:
        """False when no archive can have these numbers."""
        counts = 0 <= self.files <= self.ranges and self.files <= self.rows and (self.rows > 0) == (self.files > 0)
        positive = min(self.bytes, self.payload_a_row, self.bytes_a_row, self.largest_record, self.savepoints) >= 0
        if self.start is None or self.end is None:
            return self == NOTHING
        inside = self.ranges > 0 and 0 <= self.start < self.end and self.rows <= self.end - self.start
        return counts and positive and inside and (self.min_timestamp is None) == (not self.files)

    @classmethod
    def of(cls, pieces: Iterable[CopiedRange]) -> Self:
        """The facts of ranges that one savepoint has copied, in the order of offsets."""
        ranges = list(pieces)
        files = [piece.file for piece in ranges if piece.file is not None]
        return cls(
            start=ranges[0].start if ranges else None,
            end=ranges[-1].end if ranges else None,
            ranges=len(ranges),
            files=len(files),
            rows=sum(file.rows for file in files),
            bytes=sum(file.bytes for file in files),
            payload_a_row=max((-(-file.payload_bytes // file.rows) for file in files if file.rows), default=0),
            bytes_a_row=max((stored_bytes_a_row(file.bytes, file.rows) for file in files if file.rows), default=0),
            largest_record=max((file.largest_record for file in files), default=0),
            min_timestamp=min((file.min_timestamp for file in files), default=None),
            savepoints=1 if files else 0,
        )

    def with_behind(self, new: ArchiveFacts) -> ArchiveFacts:
        """The facts of both, ``new`` behind these."""
        stamps = [stamp for stamp in (self.min_timestamp, new.min_timestamp) if stamp is not None]
        return ArchiveFacts(
            start=new.start if self.start is None else self.start,
            end=self.end if new.end is None else new.end,
            ranges=self.ranges + new.ranges,
            files=self.files + new.files,
            rows=self.rows + new.rows,
            bytes=self.bytes + new.bytes,
            payload_a_row=max(self.payload_a_row, new.payload_a_row),
            bytes_a_row=max(self.bytes_a_row, new.bytes_a_row),
            largest_record=max(self.largest_record, new.largest_record),
            min_timestamp=min(stamps, default=None),
            savepoints=self.savepoints + new.savepoints,
        )


def stored_bytes_a_row(size: int, rows: int) -> int:
    """The mean of what a row takes in a file of this size, rounded up."""
    return max(0, -(-(size - _FILE_OVERHEAD_BYTES) // rows))


NOTHING: Final = ArchiveFacts.of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """A table by the SHA-256 and the size of the object, with how many ranges it holds."""

    sha256: str
    bytes: int
    ranges: int


class RangesNotRead(TypeError):
    """Raised to a reader of ranges who was given a manifest without them: a mistake in this software."""


class Ranges(codec.StoredAs, Sequence[CopiedRange]):
    """The ranges of one partition in the order of offsets. ``tables`` hold those up to ``before``, and ``new`` ones are behind them; ``read`` are all of them,
    None for a manifest that was read without. A value: nothing changes it.
    """

    __slots__ = ("_facts", "before", "new", "read", "tables")
    stored_kind = ArchiveFacts

    def __init__(
        self,
        *,
        tables: tuple[TableRef, ...] = (),
        before: ArchiveFacts = NOTHING,
        new: Sequence[CopiedRange] = (),
        read: Sequence[CopiedRange] | None = None,
    ) -> None:
        self.tables, self.before, self.new, self.read = tables, before, new, read
        self._facts: ArchiveFacts | None = None

    @classmethod
    def of(cls, pieces: Iterable[CopiedRange]) -> Ranges:
        """Ranges that no table holds yet."""
        if isinstance(pieces, Ranges):
            return pieces
        several = tuple(pieces)
        return cls(new=several, read=several)

    def merged(self, pieces: Sequence[CopiedRange]) -> Ranges:
        """``pieces``, which no table holds yet, with the same records as these: as many savepoints have added files to them."""
        earlier = self.facts.savepoints - ArchiveFacts.of(pieces).savepoints
        return Ranges(before=replace(NOTHING, savepoints=earlier), new=pieces, read=pieces)

    @classmethod
    def from_stored(cls, stored: object) -> Self:
        """Ranges by what a manifest says of them, unread."""
        return cls(before=cast("ArchiveFacts", stored))

    def to_stored(self) -> ArchiveFacts:
        """The facts, which a manifest has in place of the ranges."""
        return self.facts

    def within(self, tables: tuple[TableRef, ...], read: Sequence[CopiedRange] | None = None) -> Ranges:
        """These ranges, held by ``tables``."""
        return Ranges(tables=tables, before=self.facts, read=read)

    def with_behind(self, new: Sequence[CopiedRange]) -> Ranges:
        """These ranges with the ``new`` ones behind them. Ranges in tables stay there, unread."""
        return (
            Ranges(tables=self.tables, before=self.before, new=(*self.new, *new))
            if self.tables or not self.new
            else Ranges.of((*self, *new))
        )

    @property
    def facts(self) -> ArchiveFacts:
        """Facts of all of them, read or not."""
        if self._facts is None:
            self._facts = self.before.with_behind(ArchiveFacts.of(self.new)) if self.new else self.before
        return self._facts

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Key and bytes of each file."""
        if isinstance(self._all, RangeColumns):
            return self._all.sizes()
        return ((piece.file.key, piece.file.bytes) for piece in self._all if piece.file is not None)

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, at: int) -> CopiedRange: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[CopiedRange]: ...
    def __getitem__(self, at: int | slice) -> CopiedRange | Sequence[CopiedRange]:
        return self._all[at]

    @property
    def _all(self) -> Sequence[CopiedRange]:
        if self.read is not None:
            return self.read
        if self.before == NOTHING:
            return self.new
        raise RangesNotRead("the manifest was read without its ranges")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        if isinstance(other, Ranges) and (self.read is None or other.read is None):
            return (self.facts, self.tables, tuple(self.new)) == (other.facts, other.tables, tuple(other.new))
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(self.facts)

    def __repr__(self) -> str:
        return f"Ranges({self.facts})"


def kept_tables(tables: Sequence[TableRef], new: int) -> int:
    """Number of ``tables``, the oldest first, that stay as they are when ``new`` ranges are written; the others become a part of the new table.

    A table is absorbed by one that is at least as large. So of n ranges none is written again more than log2 n times, but for those that would make a
    17th table.
    """
    kept, size = len(tables), new
    while kept and (tables[kept - 1].ranges <= size or kept >= MOST_TABLES):
        kept -= 1
        size += tables[kept].ranges
    return kept


class RangeColumns(Sequence[CopiedRange]):
    """Ranges in the order of offsets. ``flags`` has ``FILE`` and ``COMPACTED`` for each; ``hashes`` has 32 bytes and ``attempts`` a name for each that has a
    file, ``at_file`` how many of them there are before a range. A range without a file has its own offsets in place of a file's, and 0 for all else.
    """

    __slots__ = ("_prefix", "_tp", "at_file", "attempts", "flags", "hashes", "numbers")

    def __init__(self, application_id: str, tp: TopicPartition) -> None:
        self._prefix = f"{application_id}/segments/{tp.topic}/{tp.partition}/"
        self._tp = tp
        self.numbers: dict[str, array[int]] = {name: array("q") for name in NUMBERS}
        self.flags = bytearray()
        self.hashes = bytearray()
        self.attempts: list[str] = []
        self.at_file: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.flags)

    @overload
    def __getitem__(self, at: int) -> CopiedRange: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[CopiedRange, ...]: ...
    def __getitem__(self, at: int | slice) -> CopiedRange | tuple[CopiedRange, ...]:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        at = range(len(self))[at]
        start, end, first, last, rows, size, payload, largest, oldest, newest = (self.numbers[name][at] for name in NUMBERS)
        file = None
        if self.flags[at] & FILE:
            number = self.at_file[at]
            file = SegmentFile(
                key=self._key(start, end, self.attempts[number]),
                bytes=size,
                sha256=self.hashes[HASH * number : HASH * (number + 1)].hex(),
                rows=rows,
                first_offset=first,
                last_offset=last,
                min_timestamp=oldest,
                max_timestamp=newest,
                payload_bytes=payload,
                largest_record=largest,
            )
        return CopiedRange(start=start, end=end, file=file, compacted=Compaction.LATEST_PER_KEY if self.flags[at] & COMPACTED else None)

    def _key(self, start: int, end: int, attempt: str) -> str:
        return f"{self._prefix}{start:020}-{end:020}-{attempt}{_ENDING}"

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Key and bytes of each file, in order."""
        attempts, numbers, prefix = iter(self.attempts), self.numbers, self._prefix
        for flag, start, end, size in zip(self.flags, numbers["start"], numbers["end"], numbers["bytes"], strict=True):
            if flag & FILE:
                yield f"{prefix}{start:020}-{end:020}-{next(attempts)}{_ENDING}", size

    def add(self, piece: CopiedRange) -> None:
        """A range behind the others. One without a record joins the one before it, so that idle hours leave no trace. Raises ``Damaged`` for a file whose
        key does not follow from its range.
        """
        file = piece.file
        flag = (FILE if file else 0) | (COMPACTED if piece.compacted else 0)
        if self._goes_on(piece.start, flag):
            self.numbers["end"][-1] = self.numbers["last"][-1] = piece.end
            return
        numbers = (piece.start, piece.end, *(_numbers(file) if file else (piece.start, piece.end, 0, 0, 0, 0, 0, 0)))
        self.at_file.append(len(self.attempts))
        if file:
            self.attempts.append(self._attempt(piece, file))
            self.hashes += bytes.fromhex(file.sha256)
        for name, number in zip(NUMBERS, numbers, strict=True):
            self.numbers[name].append(number)
        self.flags.append(flag)

    def _goes_on(self, start: int, flag: int) -> bool:
        return not flag & FILE and bool(self.flags) and self.flags[-1] == flag and self.numbers["end"][-1] == start

    def _attempt(self, piece: CopiedRange, file: SegmentFile) -> str:
        before = self._key(piece.start, piece.end, "").removesuffix(_ENDING)
        attempt = file.key.removeprefix(before).removesuffix(_ENDING)
        if (
            self._key(piece.start, piece.end, attempt) != file.key
            or ATTEMPT.fullmatch(attempt) is None
            or len(bytes.fromhex(file.sha256)) != HASH
        ):
            raise Damaged(
                f"{file.key[:200]!r} is no file of [{piece.start}, {piece.end}) of {self._tp}",
                next_step="nothing was published; find out who wrote the result that names it, then run this again",
                topic=self._tp.topic,
                partition=self._tp.partition,
            )
        return attempt

    def extend(self, behind: RangeColumns) -> None:
        """The ranges of ``behind`` behind these. The two have the same log."""
        skip = 0
        if len(behind) and self._goes_on(behind.numbers["start"][0], behind.flags[0]):
            self.numbers["end"][-1] = self.numbers["last"][-1] = behind.numbers["end"][0]
            skip = 1
        files = len(self.attempts)
        for name in NUMBERS:
            self.numbers[name] += behind.numbers[name][skip:]
        self.at_file.extend(number + files for number in behind.at_file[skip:])
        self.flags += behind.flags[skip:]
        self.hashes += behind.hashes
        self.attempts += behind.attempts

    def empty(self) -> RangeColumns:
        """No range, of the same log."""
        made = RangeColumns("", self._tp)
        made._prefix = self._prefix
        return made

    @classmethod
    def of(cls, application_id: str, tp: TopicPartition, pieces: Iterable[CopiedRange]) -> Self:
        made = cls(application_id, tp)
        for piece in pieces:
            made.add(piece)
        return made

    @property
    def possible(self) -> bool:
        """False when no ranges and no files can have these numbers, whatever is in them. Ranges do not overlap and follow each other."""
        if not self:
            return True
        of, holding = self.numbers, self._holding
        apart = all(map(le, of["end"][:-1], of["start"][1:])) and min(map(sub, of["end"], of["start"])) > 0
        counted = all(map(le, holding, of["rows"])) and sum(map(bool, of["rows"])) == len(self.attempts)
        # The last offset of a file is below the end.
        inside = all(map(le, of["start"], of["first"])) and all(map(le, holding, map(sub, of["end"], of["last"])))
        room = all(map(le, of["rows"], map(sub, of["last"], map(sub, of["first"], holding))))
        positive = min(min(of[name]) for name in ("start", "rows", "bytes", "payload_bytes", "largest_record")) >= 0
        return apart and counted and inside and room and positive and all(map(le, of["min_timestamp"], of["max_timestamp"]))

    @property
    def _holding(self) -> bytes:
        """1 for each range with a file."""
        return bytes(self.flags.translate(_IS_FILE))

    def facts(self, savepoints: int) -> ArchiveFacts:
        """Facts of these ranges, which stand for them where they are not read."""
        of = self.numbers
        full = [(rows, payload, size) for rows, payload, size in zip(of["rows"], of["payload_bytes"], of["bytes"], strict=True) if rows]
        stamps = [stamp for stamp, flag in zip(of["min_timestamp"], self.flags, strict=True) if flag & FILE]
        return ArchiveFacts(
            start=of["start"][0] if self else None,
            end=of["end"][-1] if self else None,
            ranges=len(self),
            files=len(self.attempts),
            rows=sum(of["rows"]),
            bytes=sum(of["bytes"]),
            payload_a_row=max((-(-payload // rows) for rows, payload, _ in full), default=0),
            bytes_a_row=max((stored_bytes_a_row(size, rows) for rows, _, size in full), default=0),
            largest_record=max(of["largest_record"], default=0),
            min_timestamp=min(stamps, default=None),
            savepoints=savepoints,
        )

    def runs(self) -> list[tuple[int, int]]:
        """Offsets ``[start, end)`` without a hole."""
        starts, ends = self.numbers["start"], self.numbers["end"]
        holes = [at for at, gap in enumerate(map(sub, starts[1:], ends), 1) if gap]
        edges = [0, *holes, len(self)]
        return [(starts[first], ends[last - 1]) for first, last in pairwise(edges) if first < last]

    def steps(self) -> dict[str, array[int]]:
        """The numbers as they are stored, each relative to another one or to the row before it: they are small, and alike."""
        of = self.numbers
        before = array("q", [0]) + of["end"][:-1]
        return {
            "skip": array("q", map(sub, of["start"], before)),
            "span": array("q", map(sub, of["end"], of["start"])),
            "lead": array("q", map(sub, of["first"], of["start"])),
            "tail": array("q", map(sub, of["end"], of["last"])),
            "rows": of["rows"],
            "bytes": of["bytes"],
            "payload_bytes": of["payload_bytes"],
            "largest_record": of["largest_record"],
            "min_timestamp": _wrapped(map(sub, of["min_timestamp"], array("q", [0]) + of["min_timestamp"][:-1])),
            "time_span": _wrapped(map(sub, of["max_timestamp"], of["min_timestamp"])),
        }

    def take(self, steps: dict[str, array[int]], flags: bytes, hashes: bytes, attempts: list[str]) -> None:
        """Become the ranges that ``steps`` and the rest were made of. Raises ``OverflowError`` for numbers of more than 64 bits."""
        of = self.numbers
        edges = array("q", accumulate(chain.from_iterable(zip(steps["skip"], steps["span"], strict=True))))
        of["start"], of["end"] = edges[::2], edges[1::2]
        of["first"] = array("q", map(add, of["start"], steps["lead"]))
        of["last"] = array("q", map(sub, of["end"], steps["tail"]))
        for name in ("rows", "bytes", "payload_bytes", "largest_record"):
            of[name] = steps[name]
        of["min_timestamp"] = _wrapped(accumulate(steps["min_timestamp"]))
        of["max_timestamp"] = _wrapped(map(add, of["min_timestamp"], steps["time_span"]))
        self.flags, self.hashes, self.attempts = bytearray(flags), bytearray(hashes), attempts
        self.at_file = array("q", accumulate(self._holding[:-1], initial=0))


def _numbers(file: SegmentFile) -> tuple[int, ...]:
    return (
        file.first_offset,
        file.last_offset,
        file.rows,
        file.bytes,
        file.payload_bytes,
        file.largest_record,
        file.min_timestamp,
        file.max_timestamp,
    )


def _wrapped(numbers: Iterable[int]) -> array[int]:
    """The numbers, and of those that do not fit the lowest 64 bits: timestamps may be anything."""
    known = list(numbers)
    try:
        return array("q", known)
    except OverflowError:
        # The sums in take() wrap in the same way, so the original numbers come back.
        return array("q", ((number + _HALF) % (2 * _HALF) - _HALF for number in known))
