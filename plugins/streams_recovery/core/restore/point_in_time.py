"""A log as of a moment T: which of its archived records belong to it, and which savepoints had read nothing later yet.

By timestamp, every record no later than T belongs, also one that arrived behind a later record. By position, every record before the first
later one does, as nobody had seen more of the log before that one arrived. Whole files are taken or left by their timestamps; only files
on both sides of T are asked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Gap, PartitionImage, SegmentFile


class CutBy(enum.StrEnum):
    """What decides whether a record belongs to the moment: its ``timestamp``, or its ``position`` before the first later record."""

    TIMESTAMP = "timestamp"
    POSITION = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A moment, milliseconds since the epoch, and how logs are cut at it."""

    moment: int
    by: CutBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSlice:
    """Bounds besides the moment: rows with a timestamp before ``since`` are left, those below the offset ``first``, and those from the offset ``stop`` on.
    None is no bound. ``own`` of the rows that are taken are of the interval that is asked for; the others stand around it, ``lead`` of them before its
    first record or any later one.
    """

    since: int | None
    first: int | None
    stop: int | None
    own: int
    lead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCut:
    """Which rows of some files are taken. ``first_later`` is the offset of the first record later than the moment, None when the archive has none.
    ``rows`` are those that are taken; by timestamp ``late`` of them come behind ``first_later``, by position none. A ``slice`` takes fewer.
    With ``rest`` it is the other way round: the rows that do not belong to the moment are taken.
    """

    by: CutBy
    moment: int
    first_later: int | None
    rows: int
    late: int
    slice: RowSlice | None = None
    rest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """One partition as of the moment: the files that have rows of it, in order, and which rows of them."""

    files: tuple[SegmentFile, ...]
    rows: RowCut


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A file with records on both sides of the moment: the first later offset, and rows that are no later before and behind it."""

    first_later: int
    before: int
    behind: int


SplitFile = Callable[[SegmentFile, int], Split]
"""Looks into a file. Only asked of files with records on both sides of the moment."""


def cut_log(files: Iterable[SegmentFile], as_of: AsOf, split: SplitFile) -> LogCut:
    """The part of a partition that belongs to the moment. ``files`` are all that are archived of it, in offset order."""
    taken: list[SegmentFile] = []
    first_later: int | None = None
    rows = late = 0
    for file in files:
        if first_later is not None and as_of.by is CutBy.POSITION:
            break
        found = _split(file, as_of.moment, split)
        before = found.before if first_later is None else 0
        behind = found.before + found.behind - before if as_of.by is CutBy.TIMESTAMP else 0
        rows, late = rows + before + behind, late + behind
        if before or behind:
            taken.append(file)
        if first_later is None and file.max_timestamp > as_of.moment:
            first_later = found.first_later
    return LogCut(files=tuple(taken), rows=RowCut(by=as_of.by, moment=as_of.moment, first_later=first_later, rows=rows, late=late))


def rest_of(files: Iterable[SegmentFile], cut: RowCut) -> LogCut:
    """The part of a partition that does not belong to the moment, so that both together are all of it."""
    everything = tuple(files)
    if cut.by is CutBy.TIMESTAMP:
        left = tuple(file for file in everything if file.max_timestamp > cut.moment)
    else:
        left = tuple(file for file in everything if cut.first_later is not None and file.last_offset >= cut.first_later)
    rows = sum(file.rows for file in everything) - cut.rows
    return LogCut(files=left, rows=replace(cut, rows=rows, late=0, rest=True))


CountRows = Callable[[SegmentFile, int, int | None], int]
"""How many rows of a file have an offset below the first number, and, unless it is None, a timestamp no later than the second. Only asked of files of
which some rows may be left out.
"""


def rank(cut: LogCut, offset: int, count: CountRows) -> int:
    """How many rows that belong to the moment come before ``offset``: where a log that is made of them alone goes on for whoever was there."""
    by_time = cut.rows.by is CutBy.TIMESTAMP
    limit = offset if by_time or cut.rows.first_later is None else min(offset, cut.rows.first_later)
    found = 0
    for file in cut.files:
        mixed = by_time and file.max_timestamp > cut.rows.moment
        if file.last_offset < limit and not mixed:
            found += file.rows
        elif file.first_offset < limit:
            found += count(file, limit, cut.rows.moment if mixed else None)
    return found


def _split(file: SegmentFile, moment: int, split: SplitFile) -> Split:
    if file.max_timestamp <= moment:
        return Split(first_later=file.last_offset + 1, before=file.rows, behind=0)
    if file.min_timestamp > moment:
        return Split(first_later=file.first_offset, before=0, behind=0)
    return split(file, moment)


def read_up_to(image: PartitionImage, auto_offset_reset: str) -> int:
    """The offset below which an application had read a partition at a savepoint, or had skipped it for ever."""
    if image.committed is not None:
        return image.committed.offset
    return image.end if auto_offset_reset == "latest" else image.log_start


def relevant_gaps(image: PartitionImage, cut: RowCut) -> tuple[Gap, ...]:
    """Gaps in which records of the moment may be missing. By position nothing behind the first later record is."""
    if cut.by is CutBy.TIMESTAMP or cut.first_later is None:
        return image.gaps
    return tuple(gap for gap in image.gaps if gap.start < cut.first_later)


def why_no_base(tp: TopicPartition, read: int, captured_at: int, archive: PartitionImage, cut: RowCut) -> str | None:
    """Why a savepoint that had read a partition below ``read`` at ``captured_at`` cannot be the base, or None when it can: every record it had read
    must be no later than the moment, and everything from there on must be archived. A translation of its offsets relies on both.

    Records that are gone from the archive were read before the capture: they count as no later only when the capture itself is.
    """
    first = archive.archived_from
    if cut.first_later is not None and cut.first_later < read:
        return f"it had read {tp} up to {read}, and the record at {cut.first_later} is later"
    if not first <= read <= archive.end:
        return f"it had read {tp} up to {read}, and [{first}, {archive.end}) is archived"
    missing = [gap for gap in relevant_gaps(archive, cut) if gap.end > read]
    if missing:
        return f"offsets {missing[0].start}..{missing[0].end - 1} of {tp} are missing from the archive ({missing[0].reason})"
    unseen = first > 0 or any(gap.end <= read for gap in archive.gaps)
    if unseen and captured_at > cut.moment:
        return f"not all that it had read of {tp} is archived (the archive begins at {first}), and it was taken later"
    return None
