"""What is archived of a partition: ranges of offsets, each with the file of its records, and gaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.compaction_proof import Compaction

GONE_BEFORE: Final = "deleted by retention before it was copied"
GONE_MEANWHILE: Final = "deleted by retention while it was copied"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One immutable Parquet file. ``key`` is relative to the repository, and empty while the file is not stored. Timestamps are the true minimum and
    maximum, not first and last. ``payload_bytes`` counts keys and values: what a restore will have to send, headers and framing aside.
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

    @property
    def possible(self) -> bool:
        """False when no file can have these numbers, whatever is in it."""
        counted = 0 < self.rows <= self.last_offset - self.first_offset + 1
        return counted and min(self.bytes, self.payload_bytes, self.first_offset) >= 0 and self.min_timestamp <= self.max_timestamp

    def stored_as(self, key: str) -> SegmentFile:
        """The same file, stored under ``key``."""
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
