"""Cuts a log at a moment T: which of its archived records belong to T, and which savepoints had read nothing later.

By timestamp, every record of T or earlier belongs to T, even if it came after a later record. By position, every record before the first later one
belongs to T: that was the log when the later record arrived. The timestamps in the manifest decide about most files. Only files with records on both
sides of T are read.

A timestamp may come from a wrong clock. A record that a savepoint holds was written before that savepoint was captured, so it is no later than that,
whatever its timestamp says.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Gap, PartitionImage, SegmentFile

# The clocks of producers and of this software may differ by so much.
CLOCK_DIFFERENCE_MS: Final = 60_000
# The ends of inputs are read when a cut has settled, which is after its time by the longest transaction at most.
SETTLED_MS: Final = 900_000


class CutBy(enum.StrEnum):
    """The rule for the cut: a record's ``timestamp``, or its ``position`` before the first later record."""

    TIMESTAMP = "timestamp"
    POSITION = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A moment (milliseconds since the epoch), and the rule for the cut."""

    moment: int
    by: CutBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSlice:
    """More bounds than the moment. Left out are rows with a timestamp before ``since``, rows below the offset ``first``, and rows from the offset
    ``stop`` on. None is no bound. Of the taken rows, ``own`` belong to the requested interval. The others are around it; ``lead`` of them come before
    its first record or any later one. ``wrong`` records before ``stop`` have a wrong clock and are left out.
    """

    since: int | None
    first: int | None
    stop: int | None
    own: int
    lead: int
    wrong: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCut:
    """Selects rows of files. ``first_later`` is the offset of the first record later than the moment, None if the archive has none. ``rows`` is the
    number of selected rows. By timestamp ``late`` of them come after ``first_later``, by position none. A ``slice`` selects fewer. With ``rest`` the
    selection is inverted: the rows that do not belong to the moment.

    All rows below the offset ``written`` were written by the moment, so none of them is later; ``ahead`` of them have a later timestamp. By position,
    ``behind`` rows that are no later come after ``first_later`` and are left out.
    """

    by: CutBy
    moment: int
    first_later: int | None
    rows: int
    late: int
    slice: RowSlice | None = None
    rest: bool = False
    written: int = 0
    ahead: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """One partition as of the moment: the files with rows of it, in order, and which rows."""

    files: tuple[SegmentFile, ...]
    rows: RowCut


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a savepoint knows of when a log was written: it was captured at ``captured_at`` when a reader had committed ``committed`` (None if that is
    not proven), and a little later the log ended at ``end``.
    """

    captured_at: int
    committed: int | None
    end: int


def written_by(moment: int, seen: Iterable[Seen]) -> int:
    """The offset below which all records of a log had been written by the moment, as its savepoints prove it. 0 if none does.

    A savepoint that was captured later, and ended earlier, proves the opposite. So a capture that is dated too early cannot move the offset past it.
    """
    known = tuple(seen)
    committed = (one.committed for one in known if one.committed is not None and one.captured_at + CLOCK_DIFFERENCE_MS <= moment)
    ended = (one.end for one in known if one.captured_at + CLOCK_DIFFERENCE_MS + SETTLED_MS <= moment)
    below = max((*committed, *ended), default=0)
    return min((one.end for one in known if one.captured_at > moment and one.end < below), default=below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A file with records on both sides of the moment: the first later offset (None if it has none), and the numbers of rows that are not later, before
    and after it. ``ahead`` of them have a later timestamp.
    """

    first_later: int | None
    before: int
    behind: int
    ahead: int = 0


SplitFile = Callable[[SegmentFile, int, int], Split]
"""Reads a file for a moment, and the offset below which no record is later. Called only for files whose description does not decide it."""


def cut_log(files: Iterable[SegmentFile], as_of: AsOf, split: SplitFile, *, written: int = 0) -> LogCut:
    """The part of a partition that belongs to the moment. ``files`` are all its archived files, in offset order. No record below the offset ``written``
    is later.
    """
    taken: list[SegmentFile] = []
    first_later: int | None = None
    rows = late = ahead = left = 0
    for file in files:
        found = _split(file, as_of.moment, written, split)
        before = found.before if first_later is None else 0
        behind = found.before + found.behind - before
        if as_of.by is CutBy.POSITION:
            left, behind = left + behind, 0
        rows, late, ahead = rows + before + behind, late + behind, ahead + found.ahead
        if before or behind:
            taken.append(file)
        if first_later is None:
            first_later = found.first_later
    cut = RowCut(by=as_of.by, moment=as_of.moment, first_later=first_later, rows=rows, late=late, written=written, ahead=ahead, behind=left)
    return LogCut(files=tuple(taken), rows=cut)


def rest_of(files: Iterable[SegmentFile], cut: RowCut) -> LogCut:
    """The part of a partition that does not belong to the moment: all other rows."""
    everything = tuple(files)
    if cut.by is CutBy.TIMESTAMP:
        left = tuple(file for file in everything if file.max_timestamp > cut.moment and file.last_offset >= cut.written)
    else:
        left = tuple(file for file in everything if cut.first_later is not None and file.last_offset >= cut.first_later)
    rows = sum(file.rows for file in everything) - cut.rows
    return LogCut(files=left, rows=replace(cut, rows=rows, late=0, ahead=0, behind=0, rest=True))


CountRows = Callable[[SegmentFile, int, RowCut | None], int]
"""Counts the rows of a file with an offset below the number that, unless it is None, the cut selects by their timestamps. Called only for files of which
some rows may be left out.
"""


def rank(cut: LogCut, offset: int, count: CountRows) -> int:
    """The number of rows of the moment before ``offset``. That is the offset at which a reader continues in a log made of these rows alone."""
    by_time = cut.rows.by is CutBy.TIMESTAMP
    limit = offset if by_time or cut.rows.first_later is None else min(offset, cut.rows.first_later)
    found = 0
    for file in cut.files:
        mixed = by_time and file.max_timestamp > cut.rows.moment and file.last_offset >= cut.rows.written
        if file.last_offset < limit and not mixed:
            found += file.rows
        elif file.first_offset < limit:
            found += count(file, limit, cut.rows if mixed else None)
    return found


def _split(file: SegmentFile, moment: int, written: int, split: SplitFile) -> Split:
    if file.max_timestamp <= moment:
        return Split(first_later=None, before=file.rows, behind=0)
    if file.min_timestamp > moment and file.first_offset >= written:
        return Split(first_later=file.first_offset, before=0, behind=0)
    if file.min_timestamp > moment and file.last_offset < written:
        return Split(first_later=None, before=file.rows, behind=0, ahead=file.rows)
    return split(file, moment, written)


def read_up_to(image: PartitionImage, auto_offset_reset: str) -> int:
    """The offset up to which an application had read a partition at a savepoint, or had skipped it."""
    if image.committed is not None:
        return image.committed.offset
    return image.end if auto_offset_reset == "latest" else image.log_start


def relevant_gaps(image: PartitionImage, cut: RowCut) -> tuple[Gap, ...]:
    """Gaps that may contain records of the moment. By position, gaps after the first later record cannot."""
    if cut.by is CutBy.TIMESTAMP or cut.first_later is None:
        return image.gaps
    return tuple(gap for gap in image.gaps if gap.start < cut.first_later)


def why_no_base(tp: TopicPartition, read: int, captured_at: int, archive: PartitionImage, cut: RowCut) -> str | None:
    """Why a savepoint that was captured at ``captured_at``, and had read a partition up to ``read``, cannot be the base. None if it can. All records
    that it had read must be no later than the moment, and everything after them must be archived. The translation of its offsets relies on both.

    Records that are missing in the archive were read before the capture. So they are known to be no later than the moment only if the capture itself
    is.
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
