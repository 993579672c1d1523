"""What a manifest says of the archived part of a partition, so that most readers need none of its ranges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from streams_recovery.core.repository.segment_file import CopiedRange

# What a segment has besides its rows.
_FILE_OVERHEAD_BYTES: Final = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFacts:
    """Of ``ranges`` ranges from ``start`` to ``end`` (None when there is none), with so many files and rows and ``bytes`` as they are stored.
    ``payload_a_row`` and ``bytes_a_row`` are the largest means over one file: of keys and values, and of the stored bytes. ``min_timestamp`` is None
    without a file. ``savepoints`` have added files since it was last copied from its beginning.
    """

    start: int | None
    end: int | None
    ranges: int
    files: int
    rows: int
    bytes: int
    payload_a_row: int
    bytes_a_row: int
    min_timestamp: int | None
    savepoints: int

    @property
    def possible(self) -> bool:
        """False when no archive can have these numbers."""
        counts = 0 <= self.files <= self.ranges and self.files <= self.rows and (self.rows > 0) == (self.files > 0)
        positive = min(self.bytes, self.payload_a_row, self.bytes_a_row, self.savepoints) >= 0
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
            min_timestamp=min(stamps, default=None),
            savepoints=self.savepoints + new.savepoints,
        )


def stored_bytes_a_row(size: int, rows: int) -> int:
    """The mean of what a row takes in a file of this size, rounded up."""
    return max(0, -(-(size - _FILE_OVERHEAD_BYTES) // rows))


NOTHING: Final = ArchiveFacts.of(())
