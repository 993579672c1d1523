"""An interval of event time: which archived records are its input, whether all of them are archived, and which belong to the interval itself.

The input of an interval ``[start, end)`` begins ``overlap`` earlier, to fill windows and joins, and ends ``beyond`` later, so that windows close.
Each log is read in order until the first record that is ``lateness`` later than that. Records after it are too late and are left out. A record that is
later than the capture of its archive has a wrong clock: it is left out, and reading goes on. Tables and
globals are read from their first record, because old values of a key may still be valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import PartitionImage, SegmentFile
from streams_recovery.core.restore.point_in_time import CLOCK_DIFFERENCE_MS, SETTLED_MS, CutBy, LogCut, RowCut, RowSlice
from streams_recovery.core.timestamps import LAST_MOMENT

_SECOND = 1_000
LAST_TIMESTAMP = 2**63 - 1


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
    ones, by the names that they have for the application itself.
    """

    interval: Interval
    overlap: int = 0
    beyond: int = 0
    lateness: int = 0
    tables: tuple[str, ...] = ()

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
        """The first record of this moment or later ends the reading of its log."""
        return self.last + 1 + self.lateness


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds for one log: timestamps from ``since`` (None: from the beginning) to ``last``, offsets from ``first`` (None: from the beginning) up
    to the first record of ``closed`` or later. Records of the interval ``own`` are counted separately. A record later than ``latest`` has a wrong clock: it
    is left out, and ends nothing.
    """

    own: Interval
    since: int | None
    last: int
    closed: int
    first: int | None = None
    latest: int = LAST_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalLook:
    """One file within bounds. ``rows`` are taken. ``behind`` of these come after ``first_later``, the first record later than the last moment.
    ``own`` of them belong to the interval. ``lead`` of them come before the first taken record of the interval or later. ``stop`` is the first record
    that ends the log, None if the file has none. Records from there on do not count. ``wrong`` records before it have a wrong clock.
    """

    rows: int
    behind: int
    own: int
    lead: int
    first_later: int | None
    stop: int | None
    wrong: int = 0


LookIntoFile = Callable[[SegmentFile, Bounds], IntervalLook]
"""Reads a file. Called only for files whose description in the manifest does not decide it."""


def bounds_of(wanted: IntervalSlice, *, whole: bool, first: int | None = None, archived_at: int | None = None) -> Bounds:
    """The bounds of a log. ``whole`` is True for a log that is read from its beginning. All its records were written when the savepoint that was captured
    at ``archived_at`` had settled.
    """
    latest = LAST_TIMESTAMP if archived_at is None else max(wanted.closed, archived_at + CLOCK_DIFFERENCE_MS + SETTLED_MS)
    since = None if whole else wanted.since
    return Bounds(own=wanted.interval, since=since, last=wanted.last, closed=wanted.closed, first=first, latest=latest)


def slice_log(files: Iterable[SegmentFile], bounds: Bounds, look: LookIntoFile) -> LogCut:
    """The part of a partition that is taken. ``files`` are all its archived files, in offset order."""
    taken: list[SegmentFile] = []
    first_later: int | None = None
    stop: int | None = None
    rows = late = own = lead = wrong = 0
    for file in files:
        if stop is not None:
            break
        found = _known(file, bounds) or look(file, bounds)
        if found.rows:
            taken.append(file)
        wrong += found.wrong
        lead += found.lead if lead == rows else 0
        rows, own, stop = rows + found.rows, own + found.own, found.stop
        late += found.behind if first_later is None else found.rows
        if first_later is None:
            first_later = found.first_later
    cut = RowSlice(since=bounds.since, first=bounds.first, stop=stop, own=own, lead=lead, wrong=wrong)
    return LogCut(
        files=tuple(taken),
        rows=RowCut(by=CutBy.TIMESTAMP, moment=bounds.last, first_later=first_later, rows=rows, late=late, slice=cut),
    )


def _known(file: SegmentFile, bounds: Bounds) -> IntervalLook | None:
    """The result for a file whose description shows that all or none of it is taken. None if the file must be read."""
    nothing = IntervalLook(rows=0, behind=0, own=0, lead=0, first_later=None, stop=None)
    if file.min_timestamp > bounds.latest:
        return replace(nothing, first_later=file.first_offset, wrong=file.rows)
    if file.min_timestamp >= bounds.closed and file.max_timestamp <= bounds.latest:
        return replace(nothing, first_later=file.first_offset, stop=file.first_offset)
    if file.max_timestamp >= bounds.closed:
        return None
    if file.min_timestamp > bounds.last:
        return replace(nothing, first_later=file.first_offset)
    if file.max_timestamp > bounds.last:
        return None
    if (bounds.since is not None and file.max_timestamp < bounds.since) or (bounds.first is not None and file.last_offset < bounds.first):
        return nothing
    whole = (bounds.since is None or file.min_timestamp >= bounds.since) and (bounds.first is None or file.first_offset >= bounds.first)
    inside = file.min_timestamp in bounds.own and file.max_timestamp in bounds.own
    before = file.max_timestamp < bounds.own.start
    if whole and (inside or before or file.min_timestamp >= bounds.own.end):
        return replace(nothing, rows=file.rows, own=file.rows if inside else 0, lead=file.rows if before else 0)
    return None


def why_incomplete(
    tp: TopicPartition, archive: PartitionImage, cut: RowCut, wanted: IntervalSlice, first_timestamp: Callable[[SegmentFile], int]
) -> str | None:
    """Why records of the slice may be missing from a partition's archive, or None if none can be.

    Offsets that were never archived can be ignored in two cases: if they come after the end of the slice, or if the next archived record is so old
    that a record of the slice before it would be later than ``lateness`` allows. A log that is read from its beginning must be complete.
    """
    part = cut.slice
    begins = archive.archived_from
    holes = [(0, begins, "before the archive begins")] if begins else []
    holes += [(gap.start, gap.end, gap.reason) for gap in archive.gaps if gap.end > begins]
    for start, end, reason in holes:
        if part is not None and part.stop is not None and start >= part.stop:
            continue
        behind = next((file for file in archive.files() if file.first_offset >= end), None)
        whole = part is None or part.since is None
        if not whole and behind is not None and first_timestamp(behind) < wanted.since - wanted.lateness:
            continue
        return f"offsets {start}..{end - 1} of {tp} are not archived ({reason})"
    return None
