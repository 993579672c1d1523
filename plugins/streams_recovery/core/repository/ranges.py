"""The ranges of a partition in a manifest: read, or named by the tables that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast, overload

from streams_recovery.core import codec
from streams_recovery.core.repository.archive_facts import NOTHING, ArchiveFacts
from streams_recovery.core.repository.range_columns import RangeColumns
from streams_recovery.core.repository.segment_file import CopiedRange


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

    __slots__ = ("before", "new", "read", "tables")
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

    @classmethod
    def of(cls, pieces: Iterable[CopiedRange]) -> Ranges:
        """These, which no table holds yet."""
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
        """Those that a manifest tells of."""
        return cls(before=cast("ArchiveFacts", stored))

    def to_stored(self) -> ArchiveFacts:
        """What a manifest tells of them."""
        return self.facts

    def within(self, tables: tuple[TableRef, ...], read: Sequence[CopiedRange] | None = None) -> Ranges:
        """The same, held by these tables."""
        return Ranges(tables=tables, before=self.facts, read=read)

    def with_behind(self, new: Sequence[CopiedRange]) -> Ranges:
        """These and ``new`` ones behind them. What is in tables stays there, unread."""
        return (
            Ranges(tables=self.tables, before=self.before, new=(*self.new, *new))
            if self.tables or not self.new
            else Ranges.of((*self, *new))
        )

    @property
    def facts(self) -> ArchiveFacts:
        """What can be told of all of them without them."""
        return self.before.with_behind(ArchiveFacts.of(self.new)) if self.new else self.before

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
