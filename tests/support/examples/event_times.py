"""Archived logs with any timestamps, intervals of them, and the plain definition of what an interval takes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.repository.manifest import CopiedRange, PartitionImage, SegmentFile
from streams_recovery.core.restore.interval import Bounds, Interval, IntervalSlice
from streams_recovery.core.restore.point_in_time import AsOf, LogCut, Split, cut_log
from tests.support.examples.savepoints import image, segment


@dataclass(frozen=True)
class Log:
    """Rows (offset, timestamp) of an archived log, in files."""

    start: int
    end: int
    pieces: tuple[tuple[tuple[int, int], ...], ...]
    borders: tuple[int, ...]

    @property
    def rows(self) -> list[tuple[int, int]]:
        return [row for piece in self.pieces for row in piece]

    @property
    def ranges(self) -> tuple[CopiedRange, ...]:
        return tuple(stamped(low, high, piece) for (low, high), piece in zip(itertools.pairwise(self.borders), self.pieces, strict=True))

    @property
    def image(self) -> PartitionImage:
        return image(self.ranges, start=self.start, end=self.end)

    def split(self, file: SegmentFile, moment: int, written: int) -> Split:
        [rows] = [piece for piece in self.pieces if piece and piece[0][0] == file.first_offset]
        assert moment < max(at for _, at in rows), "only files on both sides are asked"
        assert min(at for _, at in rows) <= moment or rows[0][0] < written <= rows[-1][0], "only files on both sides are asked"
        later = [at > moment and offset >= written for offset, at in rows]
        before = later.index(True) if True in later else len(rows)
        return Split(
            first_later=rows[before][0] if True in later else None,
            before=before,
            behind=later[before:].count(False),
            ahead=sum(at > moment for _, at in rows) - sum(later),
        )

    def cut(self, moment: int, by: CutBy, written: int = 0) -> LogCut:
        return cut_log(self.image.files(), AsOf(moment=moment, by=by), self.split, written=written)


def stamped(low: int, high: int, rows: tuple[tuple[int, int], ...]) -> CopiedRange:
    """The range ``[low, high)`` with rows (offset, timestamp)."""
    piece = segment(low, high, [offset for offset, _ in rows])
    if piece.file is None:
        return piece
    stamps = [at for _, at in rows]
    return replace(piece, file=replace(piece.file, min_timestamp=min(stamps), max_timestamp=max(stamps)))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Any log of up to thirty offsets."""
    start = draw(st.integers(0, 9))
    end = start + draw(st.integers(1, 30))
    offsets = sorted(draw(st.sets(st.integers(start, end - 1))))
    # Few different timestamps: equal ones and late ones are what matters.
    rows = [(offset, draw(st.integers(1, 6))) for offset in offsets]
    borders = tuple(sorted({start, end, *draw(st.sets(st.integers(start, end), max_size=4))}))
    pieces = tuple(tuple(row for row in rows if low <= row[0] < high) for low, high in itertools.pairwise(borders))
    return Log(start, end, pieces, borders)


@st.composite
def slices(draw: st.DrawFn) -> IntervalSlice:
    """Any interval, with any settings of what to take around it."""
    start = draw(st.integers(1, 6))
    interval = Interval(start=start, end=start + draw(st.integers(1, 3)))
    return IntervalSlice(
        interval=interval, overlap=draw(st.integers(0, 3)), beyond=draw(st.integers(0, 2)), lateness=draw(st.integers(0, 2))
    )


def expected(log: Log, bounds: Bounds) -> tuple[list[tuple[int, int]], int | None]:
    """Rows that are taken, and where reading stops."""
    stop = next((offset for offset, at in log.rows if bounds.closed <= at <= bounds.latest and offset >= bounds.written), None)
    return [row for row in within(log, bounds) if stop is None or row[0] < stop], stop


def within(log: Log, bounds: Bounds) -> list[tuple[int, int]]:
    """Rows in reach, wherever reading stops."""
    return [
        (offset, at)
        for offset, at in log.rows
        if at <= bounds.last and (bounds.since is None or at >= bounds.since) and (bounds.first is None or offset >= bounds.first)
    ]


def behind(log: Log, bounds: Bounds, stop: int | None) -> tuple[int, int]:
    """How many rows of the interval, and of the input around it, come from where reading stops on."""
    rows = [] if stop is None else [at for offset, at in within(log, bounds) if offset >= stop]
    own = sum(at in bounds.own for at in rows)
    return own, len(rows) - own


def ahead(log: Log, bounds: Bounds, stop: int | None) -> int:
    """How many rows before that have a wrong clock."""
    late = [offset for offset, at in log.rows if at > bounds.latest or (at >= bounds.closed and offset < bounds.written)]
    return sum(stop is None or offset < stop for offset in late)


def lead(rows: list[tuple[int, int]], own: Interval) -> int:
    """How many rows come first, before any of the interval or later."""
    return len(list(itertools.takewhile(lambda row: row[1] < own.start, rows)))
