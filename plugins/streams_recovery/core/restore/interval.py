"""An interval of event time: which archived records are its input, whether all of them are archived, and which belong to the interval itself.

The input of an interval ``[start, end)`` begins ``overlap`` earlier, to fill windows and joins, and ends ``beyond`` later, so that windows close.
Each log is read in order until the first record that is ``lateness`` later than that: its end. A record has a wrong clock when it is dated later than the
capture of its archive, or when savepoints prove that it was written before its date: it is left out, and reading goes on. What comes behind the end and
has a time of the input is counted: too late, or the end itself has a wrong clock. Tables and globals are read from their first record, because old
values of a key may still be valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final, Protocol

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy, IntervalRows, RowCut, RowSlice
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage, SegmentFile
from streams_recovery.core.restore.point_in_time import CLOCK_DIFFERENCE_MS, SETTLED_MS, LogCut
from streams_recovery.core.words import LAST_MOMENT

_SECOND = 1_000
LAST_TIMESTAMP = 2**63 - 1
# Records beside a hole in an archive that tell what time it was there.
BESIDE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """``[start, end)`` of event time, milliseconds since the epoch. Raises ``ConfigInvalid`` for an empty interval, and for one that begins before
    1970 or ends after the year 9999.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 < self.start < self.end <= LAST_MOMENT:
            raise ConfigInvalid(
                f"from {self.start} to {self.end} (milliseconds since 1970) is no interval",
                next_step="give a start after 1970, and an end after the start and before the year 10000; the end itself is not part of the interval",
            )

    @property
    def name(self) -> str:
        """The start, such as ``20261121T120000Z``, for names of topics and applications. It has milliseconds if the start has any."""
        begins = datetime.fromtimestamp(self.start // _SECOND, UTC).strftime("%Y%m%dT%H%M%S")
        part = self.start % _SECOND
        return f"{begins}.{part:03}Z" if part else f"{begins}Z"

    def __contains__(self, timestamp: int) -> bool:
        return self.start <= timestamp < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalSlice:
    """An interval, and how far its input reaches, in milliseconds. ``tables`` are inputs that are read from their beginning, in addition to compacted
    ones, by the names that they have for the application itself. With ``leave_late`` records of the interval behind the end of their log are left out,
    without it there may be none.
    """

    interval: Interval
    overlap: int = 0
    beyond: int = 0
    lateness: int = 0
    tables: tuple[str, ...] = ()
    leave_late: bool = False

    def __post_init__(self) -> None:
        if min(self.overlap, self.beyond, self.lateness) < 0:
            raise ConfigInvalid("overlap, beyond and lateness cannot be negative", next_step="write durations such as PT10M")

    @property
    def since(self) -> int:
        """The first moment of the input."""
        return max(0, self.interval.start - self.overlap)

    @property
    def last(self) -> int:
        """The last moment of the input."""
        return self.interval.end + self.beyond - 1

    @property
    def closed(self) -> int:
        """The first record of this moment or later ends the reading of its log, unless its clock is wrong."""
        return self.last + 1 + self.lateness


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds for one log: timestamps from ``since`` (None: from the beginning) to ``last``, offsets from ``first`` (None: from the beginning) up
    to the first record of ``closed`` or later. Records of the interval ``own`` are counted separately. A record later than ``latest`` has a wrong clock,
    and one of ``closed`` or later that is below the offset ``written``: it is left out, and ends nothing. With ``ended`` the log has ended before.
    """

    own: Interval
    since: int | None
    last: int
    closed: int
    first: int | None = None
    latest: int = LAST_TIMESTAMP
    written: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalLook(IntervalRows):
    """One file within bounds. ``rows`` are taken. ``behind`` of these come after ``first_later``, the first record later than the last moment."""

    rows: int
    behind: int
    first_later: int | None


LookIntoFile = Callable[[SegmentFile, Bounds], IntervalLook]
"""Reads a file. Called only for files whose description in the manifest does not decide it."""


def bounds_of(wanted: IntervalSlice, *, whole: bool, first: int | None = None, archived_at: int | None = None, written: int = 0) -> Bounds:
    """The bounds of a log. ``whole`` is True for a log that is read from its beginning. All its records were written when the savepoint that was captured
    at ``archived_at`` had settled, and those below the offset ``written`` before ``wanted.closed``.
    """
    latest = LAST_TIMESTAMP if archived_at is None else max(wanted.closed, archived_at + CLOCK_DIFFERENCE_MS + SETTLED_MS)
    since = None if whole else wanted.since
    return Bounds(own=wanted.interval, since=since, last=wanted.last, closed=wanted.closed, first=first, latest=latest, written=written)


def slice_log(files: Iterable[SegmentFile], bounds: Bounds, look: LookIntoFile) -> LogCut:
    """The part of a partition that is taken. ``files`` are all its archived files, in offset order."""
    taken: list[SegmentFile] = []
    first_later: int | None = None
    stop: int | None = None
    rows = late = own = lead = wrong = left = around = 0
    for file in files:
        found = _known(file, bounds) or look(file, bounds)
        left, around = left + found.left, around + found.around
        if bounds.ended:
            continue
        if found.rows:
            taken.append(file)
        wrong += found.wrong
        lead += found.lead if lead == rows else 0
        rows, own, stop = rows + found.rows, own + found.own, found.stop
        late += found.behind if first_later is None else found.rows
        if first_later is None:
            first_later = found.first_later
        if stop is not None:
            bounds = replace(bounds, ended=True)
    cut = RowSlice(since=bounds.since, first=bounds.first, stop=stop, own=own, lead=lead, wrong=wrong, left=left, around=around)
    return LogCut(
        files=tuple(taken),
        rows=RowCut(by=CutBy.TIMESTAMP, moment=bounds.last, first_later=first_later, rows=rows, late=late, slice=cut),
    )


def _known(file: SegmentFile, bounds: Bounds) -> IntervalLook | None:
    """The result for a file whose description shows that all or none of it is taken. None if the file must be read."""
    nothing = IntervalLook(rows=0, behind=0, own=0, lead=0, first_later=None, stop=None)
    if file.min_timestamp > bounds.last:
        return _known_later(file, bounds, nothing)
    if file.max_timestamp >= bounds.closed and not bounds.ended:
        return None
    outside = (bounds.since is not None and file.max_timestamp < bounds.since) or (
        bounds.first is not None and file.last_offset < bounds.first
    )
    # A record that is not taken may still be the first later one.
    if outside and (bounds.ended or file.max_timestamp <= bounds.last):
        return nothing
    if file.max_timestamp > bounds.last:
        return None
    whole = (bounds.since is None or file.min_timestamp >= bounds.since) and (bounds.first is None or file.first_offset >= bounds.first)
    inside = file.min_timestamp in bounds.own and file.max_timestamp in bounds.own
    before = file.max_timestamp < bounds.own.start
    if not whole or not (inside or before or file.min_timestamp >= bounds.own.end):
        return None
    if bounds.ended:
        return replace(nothing, left=file.rows if inside else 0, around=0 if inside else file.rows)
    return replace(nothing, rows=file.rows, own=file.rows if inside else 0, lead=file.rows if before else 0)


def _known_later(file: SegmentFile, bounds: Bounds, nothing: IntervalLook) -> IntervalLook | None:
    """The result for a file of which nothing is taken, because all of it is later. None if the file must be read."""
    if bounds.ended:
        return nothing
    later = replace(nothing, first_later=file.first_offset)
    if file.max_timestamp < bounds.closed:
        return later
    if file.min_timestamp > bounds.latest or (file.min_timestamp >= bounds.closed and file.last_offset < bounds.written):
        return replace(later, wrong=file.rows)
    if file.min_timestamp >= bounds.closed and file.max_timestamp <= bounds.latest and file.first_offset >= bounds.written:
        return replace(later, stop=file.first_offset)
    return None


class ReadStamps(Protocol):
    """Reads records beside a hole."""

    def __call__(self, file: SegmentFile, /, *, last: bool) -> Sequence[tuple[int, int]]:
        """Offsets and timestamps of up to ``BESIDE`` records in order: the first of a file, or the ``last`` of it."""


def why_incomplete(tp: TopicPartition, archive: PartitionImage, cut: RowCut, wanted: IntervalSlice, read: ReadStamps) -> str | None:
    """The reason records of the slice may be missing from a partition's archive, or None if none can be.

    Offsets that were never archived can be ignored in two cases. The log had ended before them: the records from its end up to them are so late. Or the
    records behind them are so old that a record of the slice before them would be later than ``lateness`` allows. A single record is no proof: it may
    itself be late, or have a wrong clock. A log that is read from its beginning must be complete.
    """
    part = cut.slice
    whole = part is None or part.since is None
    stop = None if part is None else part.stop
    begins = archive.archived_from
    holes = [(0, begins, "before the archive begins")] if begins else []
    holes += [(gap.start, gap.end, gap.reason) for gap in archive.gaps if gap.end > begins]
    for start, end, reason in holes:
        if stop is not None and stop < start and _mostly([at >= wanted.closed for at in _before(archive, stop, start, read)]):
            continue
        old = [at < wanted.since - wanted.lateness for at in _behind(archive, end, read)]
        if not whole and old and old[0] and _mostly(old):
            continue
        return f"offsets {start}..{end - 1} of {tp} are not archived ({reason})"
    return None


def _mostly(facts: Sequence[bool]) -> bool:
    return sum(facts) > 1 and 2 * sum(facts) > len(facts)


def _behind(archive: PartitionImage, offset: int, read: ReadStamps) -> list[int]:
    """Timestamps of the first records from an offset on."""
    files = (file for file in archive.files() if file.first_offset >= offset)
    return list(islice((at for file in files for _, at in read(file, last=False)), BESIDE))


def _before(archive: PartitionImage, first: int, offset: int, read: ReadStamps) -> list[int]:
    """Timestamps of the last records in ``[first, offset)``, the last one first."""

    def back() -> Iterator[int]:
        for file in reversed([file for file in archive.files() if file.last_offset >= first and file.first_offset < offset]):
            yield from (at for place, at in reversed(read(file, last=True)) if first <= place < offset)

    return list(islice(back(), BESIDE))
