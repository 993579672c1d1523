"""Intervals of event time cut out of logs, against the plain definition: read in order up to the first record that is too late, keep what is in reach."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import CutBy, RowCut, RowSlice
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import CopiedRange, Gap, SegmentFile
from streams_recovery.core.restore.interval import (
    BESIDE,
    Bounds,
    Interval,
    IntervalLook,
    IntervalSlice,
    ReadStamps,
    bounds_of,
    slice_log,
    why_incomplete,
)
from streams_recovery.core.restore.point_in_time import LogCut
from tests.support.examples.event_times import Log, ahead, behind, expected, lead, logs, slices
from tests.support.examples.savepoints import image

TP = TopicPartition("t", 0)
NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z


def look_in(log: Log, file: SegmentFile, bounds: Bounds) -> IntervalLook:
    [rows] = [piece for piece in log.pieces if piece and piece[0][0] == file.first_offset]
    alone = replace(log, pieces=(rows,))
    taken, stop = ([], rows[0][0]) if bounds.ended else expected(alone, bounds)
    left, around = behind(alone, bounds, stop)
    if bounds.ended:
        return IntervalLook(rows=0, behind=0, own=0, lead=0, first_later=None, stop=None, left=left, around=around)
    reach = [row for row in rows if stop is None or row[0] <= stop]
    first_later = next((offset for offset, at in reach if at > bounds.last), None)
    return IntervalLook(
        rows=len(taken),
        behind=sum(first_later is not None and offset > first_later for offset, _ in taken),
        own=sum(at in bounds.own for _, at in taken),
        lead=lead(taken, bounds.own),
        first_later=first_later,
        stop=stop,
        wrong=ahead(alone, bounds, stop),
        left=left,
        around=around,
    )


def cut(log: Log, bounds: Bounds) -> LogCut:
    return slice_log(log.image.files(), bounds, lambda file, limits: look_in(log, file, limits))


LATE = Log(0, 7, (((0, 1), (1, 3), (2, 2)), ((3, 4), (4, 2)), ((5, 6), (6, 2))), (0, 3, 5, 7))


@given(
    log=logs(),
    wanted=slices(),
    whole=st.booleans(),
    first=st.none() | st.integers(0, 30),
    latest=st.integers(3, 7),
    written=st.just(0) | st.integers(0, 40),
)
@example(log=LATE, wanted=IntervalSlice(interval=Interval(start=2, end=3)), whole=False, first=None, latest=7, written=0)
@example(log=LATE, wanted=IntervalSlice(interval=Interval(start=2, end=3)), whole=False, first=None, latest=7, written=2)
@example(log=LATE, wanted=IntervalSlice(interval=Interval(start=2, end=3)), whole=False, first=None, latest=3, written=0)
@example(log=LATE, wanted=IntervalSlice(interval=Interval(start=2, end=3), lateness=3), whole=False, first=None, latest=7, written=0)
@example(log=LATE, wanted=IntervalSlice(interval=Interval(start=2, end=3), beyond=1, lateness=2), whole=True, first=2, latest=7, written=0)
@example(
    log=Log(0, 2, (((0, 1), (1, 2)),), (0, 2)),
    wanted=IntervalSlice(interval=Interval(start=1, end=2), lateness=1),
    whole=False,
    first=2,
    latest=3,
    written=0,
)
def test_what_is_taken_of_a_log_is_what_is_in_reach_and_not_too_late(
    log: Log, wanted: IntervalSlice, *, whole: bool, first: int | None, latest: int, written: int
) -> None:
    bounds = replace(bounds_of(wanted, whole=whole, first=first, written=written), latest=max(latest, wanted.closed))
    rows, stop = expected(log, bounds)
    reach = [row for row in log.rows if stop is None or row[0] <= stop]
    first_later = next((offset for offset, at in reach if at > bounds.last), None)
    left, around = behind(log, bounds, stop)
    found = cut(log, bounds)
    assert found.rows == RowCut(
        by=CutBy.TIMESTAMP,
        moment=wanted.last,
        first_later=first_later,
        rows=len(rows),
        late=sum(first_later is not None and offset > first_later for offset, _ in rows),
        slice=RowSlice(
            since=None if whole else wanted.since,
            first=first,
            stop=stop,
            own=sum(at in wanted.interval for _, at in rows),
            lead=lead(rows, wanted.interval),
            wrong=ahead(log, bounds, stop),
            left=left,
            around=around,
        ),
    )
    assert found.files == tuple(
        file for file in log.image.files() if any(file.first_offset <= offset <= file.last_offset for offset, _ in rows)
    )


def test_one_record_of_2099_takes_nothing_from_the_intervals_behind_it() -> None:
    hour, ahead = 3_600_000, NOON + 73 * 365 * 24 * 3_600_000
    rows = ((0, NOON + 1), (1, ahead), (2, NOON + 2), (3, NOON + hour), (4, NOON + hour + 1))
    log = Log(0, 5, (rows[:2], rows[2:]), (0, 2, 5))
    taken = []
    for start in (NOON, NOON + hour):
        wanted = IntervalSlice(interval=Interval(start=start, end=start + hour))
        part = cut(log, bounds_of(wanted, whole=False, archived_at=NOON + 2 * hour)).rows.slice
        assert part is not None
        taken.append((part.own, part.wrong))
    assert taken == [(2, 1), (2, 1)]


@pytest.mark.parametrize(("written", "found"), [(0, (1, 2, 1, 0)), (2, (3, 0, 0, 1))])
def test_what_comes_behind_a_record_that_is_a_little_ahead_is_counted_and_taken_where_a_savepoint_shows_that_it_was_there(
    written: int, found: tuple[int, ...]
) -> None:
    hour = 3_600_000
    rows = ((0, NOON + 1), (1, NOON + 3 * hour), (2, NOON + 2), (3, NOON - 1), (4, NOON + 3), (5, NOON + hour))
    log = Log(0, 6, (rows[:2], rows[2:4], rows[4:]), (0, 2, 4, 6))
    wanted = IntervalSlice(interval=Interval(start=NOON, end=NOON + hour), overlap=1)
    part = cut(log, bounds_of(wanted, whole=False, archived_at=NOON + 9 * hour, written=written)).rows.slice
    assert part is not None
    assert (part.own, part.left, part.around, part.wrong) == found


@given(log=logs(), borders=st.sets(st.integers(1, 9), min_size=2, max_size=4))
def test_intervals_that_follow_each_other_have_each_record_once_unless_it_is_too_late(log: Log, borders: set[int]) -> None:
    edges = sorted(borders)
    many = [IntervalSlice(interval=Interval(start=low, end=high), lateness=9) for low, high in itertools.pairwise(edges)]
    own = [part.slice.own for wanted in many if (part := cut(log, bounds_of(wanted, whole=False)).rows).slice is not None]
    assert sum(own) == sum(edges[0] <= at < edges[-1] for _, at in log.rows)


@st.composite
def holed(draw: st.DrawFn) -> tuple[Log, Log, IntervalSlice, int]:
    """A log in which nothing is later than it is said to be, the same with one of its ranges gone, and which range that is."""
    wanted = draw(slices())
    newest, rows = 1, []
    for offset in sorted(draw(st.sets(st.integers(0, 20), min_size=1, max_size=12))):
        newest += draw(st.integers(0, 2))
        rows.append((offset, max(1, newest - draw(st.integers(0, wanted.lateness)))))
    borders = tuple(sorted({0, 21, *draw(st.sets(st.integers(1, 20), min_size=1, max_size=4))}))
    pieces = tuple(tuple(row for row in rows if low <= row[0] < high) for low, high in itertools.pairwise(borders))
    gone = draw(st.integers(0, len(pieces) - 1))
    left = tuple(() if number == gone else piece for number, piece in enumerate(pieces))
    return Log(0, 21, pieces, borders), Log(0, 21, left, borders), wanted, gone


@given(drawn=holed())
def test_an_archive_with_a_hole_is_used_only_where_the_hole_cannot_matter(drawn: tuple[Log, Log, IntervalSlice, int]) -> None:
    """When it passes, the same is taken of it as of the whole log."""
    whole, log, wanted, gone = drawn
    low, high = log.borders[gone : gone + 2]
    there = tuple(piece for number, piece in enumerate(log.ranges) if number != gone)
    if gone == 0:
        archive = replace(log.image, ranges=there, log_start=high)
    else:
        archive = replace(log.image, ranges=there, gaps=(Gap(start=low, end=high, reason="too late"),))
    bounds = bounds_of(wanted, whole=False)
    why = why_incomplete(TP, archive, cut(log, bounds).rows, wanted, stamps_of(log))
    if why is None:
        assert expected(log, bounds)[0] == expected(whole, bounds)[0]


def stamps_of(log: Log) -> ReadStamps:
    def read(file: SegmentFile, /, *, last: bool) -> list[tuple[int, int]]:
        rows = [row for row in log.rows if file.first_offset <= row[0] <= file.last_offset]
        return rows[-BESIDE:] if last else rows[:BESIDE]

    return read


def why_of(log: Log, gap: tuple[int, int], wanted: IntervalSlice, *, whole: bool = False) -> str | None:
    """Why a log with this hole may lack input. One that begins at 0 is a gap that a savepoint recorded; else nothing was archived before."""
    gaps = (Gap(start=gap[0], end=gap[1], reason="gone"),) if gap[0] else ()
    archive = replace(log.image, gaps=gaps)
    return why_incomplete(TP, archive, cut(log, bounds_of(wanted, whole=whole)).rows, wanted, stamps_of(log))


WANTED = IntervalSlice(interval=Interval(start=100, end=200), lateness=10)


@pytest.mark.parametrize(
    ("stamps", "wanted", "named"),
    [
        ((89, 89, 150), WANTED, False),  # a record of the interval before them would have been more than 10 late
        ((90, 89, 89, 150), WANTED, True),
        ((89, 150), WANTED, True),  # it may be late itself
        ((3, 150, 160, 170), WANTED, True),
        ((3, 250, 250, 250), WANTED, True),
        ((3,), WANTED, True),
        ((3, 4), WANTED, False),
        ((3, *([4] * 60), *([150] * 60)), WANTED, False),
        ((3, *([4] * 40), *([150] * 60)), WANTED, True),
        ((89, 89, 150), replace(WANTED, lateness=11), True),
        ((), WANTED, True),
    ],
)
@pytest.mark.parametrize("begins", [0, 5])
def test_one_record_behind_a_hole_does_not_decide_for_it(
    stamps: tuple[int, ...], wanted: IntervalSlice, *, named: bool, begins: int
) -> None:
    rows = tuple((8 + at, stamp) for at, stamp in enumerate(stamps))
    end = 9 + len(stamps)
    log = Holed(0, end, (((0, 1),), (), rows), (0, 5, 8, end)) if begins else Log(8, end, (rows,), (8, end))
    hole = (5, 8) if begins else (0, 8)
    why = why_of(log, hole, wanted)
    assert (why is not None) == named, why
    if named:
        assert f"offsets {hole[0]}..7 of t-0 are not archived" in str(why)
    assert why_of(log, hole, wanted, whole=True) is not None, "a table has to be whole"


@pytest.mark.parametrize(
    ("stamps", "named"),
    [
        ((150, 250, 260), False),  # the log had ended
        ((150, 250), True),  # or the clock of one record was wrong
        ((150, 250, 150, 160), True),
        ((150, 250, 150, 260, 270), False),
    ],
)
def test_a_hole_behind_the_end_of_a_log_counts_if_only_one_record_says_that_it_was_the_end(stamps: tuple[int, ...], *, named: bool) -> None:
    before = tuple(enumerate(stamps))
    log = Holed(0, 30, (before, (), ((25, 150), (26, 300))), (0, 10, 20, 30))
    assert (why_of(log, (10, 20), WANTED) is not None) == named


class Holed(Log):
    """A log whose second range was never archived."""

    @property
    def ranges(self) -> tuple[CopiedRange, ...]:
        first, _, last = super().ranges
        return first, last


def test_nothing_is_missing_of_a_log_that_was_always_empty() -> None:
    part = RowCut(by=CutBy.TIMESTAMP, moment=199, first_later=None, rows=0, late=0, slice=None)
    assert "offsets 0..19" in str(why_incomplete(TP, image((), end=20), part, WANTED, stamps_of(LATE)))
    assert why_incomplete(TP, image((), end=0), part, WANTED, stamps_of(LATE)) is None


@given(wanted=slices())
def test_the_input_reaches_around_the_interval_and_no_further(wanted: IntervalSlice) -> None:
    assert wanted.since <= wanted.interval.start < wanted.interval.end <= wanted.last + 1 <= wanted.closed
    assert wanted.since == max(0, wanted.interval.start - wanted.overlap)
    assert wanted.interval.start in wanted.interval
    assert wanted.interval.end not in wanted.interval
    assert (wanted.closed - wanted.interval.end) == wanted.beyond + wanted.lateness


def test_an_interval_is_called_by_its_start() -> None:
    assert Interval(start=NOON, end=NOON + 1).name == "20261121T120000Z"
    assert Interval(start=NOON + 7, end=NOON + 9).name == "20261121T120000.007Z"
    for start, end in ((5, 5), (6, 5), (0, 5), (-1, 5)):
        with pytest.raises(ConfigInvalid, match="is no interval"):
            Interval(start=start, end=end)
    with pytest.raises(ConfigInvalid, match="cannot be negative"):
        IntervalSlice(interval=Interval(start=1, end=2), overlap=-1)
