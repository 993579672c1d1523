"""Logs cut at a moment, against the plain definition: which records are no later, and which come before the first that is.

What has to be true of a log that is cut where it is, and what a quarantine says.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.manifest import Gap, SegmentFile
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.repository.survival import translate
from streams_recovery.core.restore.point_in_time import (
    CLOCK_DIFFERENCE_MS,
    SETTLED_MS,
    LaterPartition,
    LaterTopic,
    MovedOffset,
    OtherGroup,
    QuarantineEntry,
    Seen,
    check_stood_still,
    quarantine_of,
    rank,
    read_up_to,
    relevant_gaps,
    rest_of,
    rows_before,
    uncovered,
    why_no_base,
    written_by,
)
from tests.support.examples.event_times import Log, logs
from tests.support.examples.savepoints import image, segment

TP = TopicPartition("t", 0)


LATE = Log(0, 6, (((0, 1), (1, 5), (2, 2)), ((3, 2),), ((4, 6), (5, 3))), (0, 3, 4, 6))


WRITTEN = st.just(0) | st.integers(0, 40)


@given(log=logs(), moment=st.integers(0, 7), written=WRITTEN)
@example(log=LATE, moment=0, written=0)
@example(log=LATE, moment=2, written=0)
@example(log=LATE, moment=7, written=0)
@example(log=LATE, moment=2, written=2)
@example(log=LATE, moment=2, written=5)
def test_by_timestamp_every_record_that_is_no_later_is_taken(log: Log, moment: int, written: int) -> None:
    found = log.cut(moment, CutBy.TIMESTAMP, written)
    wanted = [(offset, at) for offset, at in log.rows if at <= moment or offset < written]
    first = next((offset for offset, at in log.rows if at > moment and offset >= written), None)
    assert found.rows == RowCut(
        by=CutBy.TIMESTAMP,
        moment=moment,
        first_later=first,
        rows=len(wanted),
        late=sum(first is not None and offset > first for offset, _ in wanted),
        written=written,
        ahead=sum(at > moment for _, at in wanted),
    )
    assert found.files == files_with(log, [offset for offset, _ in wanted])


@given(log=logs(), moment=st.integers(0, 7), written=WRITTEN)
@example(log=LATE, moment=2, written=0)
@example(log=LATE, moment=2, written=4)
def test_by_position_every_record_before_the_first_later_one_is_taken_and_those_behind_it_are_counted(
    log: Log, moment: int, written: int
) -> None:
    found = log.cut(moment, CutBy.POSITION, written)
    wanted = list(itertools.takewhile(lambda row: row[1] <= moment or row[0] < written, log.rows))
    first = next((offset for offset, at in log.rows if at > moment and offset >= written), None)
    assert found.rows == RowCut(
        by=CutBy.POSITION,
        moment=moment,
        first_later=first,
        rows=len(wanted),
        late=0,
        written=written,
        ahead=sum(at > moment for _, at in wanted),
        behind=sum(first is not None and offset > first and at <= moment for offset, at in log.rows),
    )
    assert found.files == files_with(log, [offset for offset, _ in wanted])


def files_with(log: Log, offsets: list[int]) -> tuple[SegmentFile, ...]:
    return tuple(file for file in log.image.files() if any(file.first_offset <= offset <= file.last_offset for offset in offsets))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[Seen], int]:
    """When each record of a log was written, what savepoints saw of it at their times, and a moment. Our clock is wrong by less than is allowed for."""
    written = sorted(draw(st.lists(st.integers(0, 9_000_000), min_size=1, max_size=12)))
    seen = []
    for at in draw(st.lists(st.integers(0, 10_000_000), max_size=6)):
        settled = at + draw(st.integers(0, SETTLED_MS))
        ended = sum(time <= settled for time in written)
        read = draw(st.none() | st.integers(0, sum(time <= at for time in written)))
        captured_at = at - draw(st.integers(0, CLOCK_DIFFERENCE_MS))
        seen.append(Seen(captured_at=captured_at, committed=read, end=ended))
    return written, seen, draw(st.integers(0, 10_000_000))


@given(drawn=histories(), forged=st.none() | st.tuples(st.integers(0, 12), st.booleans()))
def test_what_is_said_to_be_written_by_a_moment_was_written_by_then(
    drawn: tuple[list[int], list[Seen], int], forged: tuple[int, bool] | None
) -> None:
    written, seen, moment = drawn
    below = written_by(moment, seen)
    assert all(time <= moment for time in written[:below])
    if forged is not None and any(one.captured_at > moment for one in seen):
        lies = Seen(captured_at=0, committed=forged[0] if forged[1] else None, end=forged[0])
        later = [one.end for one in seen if one.captured_at > moment]
        assert written_by(moment, [*seen, lies]) <= max(below, min(later)), (
            "a capture dated too early goes no further than a later one had seen"
        )


@pytest.mark.parametrize(
    ("moment", "below"),
    [
        (1_000 + CLOCK_DIFFERENCE_MS - 1, 0),
        (1_000 + CLOCK_DIFFERENCE_MS, 6),
        (1_000 + CLOCK_DIFFERENCE_MS + SETTLED_MS - 1, 6),
        (1_000 + CLOCK_DIFFERENCE_MS + SETTLED_MS, 9),
    ],
)
def test_what_was_committed_counts_at_once_and_the_end_when_it_has_settled(moment: int, below: int) -> None:
    assert written_by(moment, [Seen(captured_at=1_000, committed=6, end=9)]) == below


def test_a_committed_offset_behind_the_end_of_its_log_proves_nothing_of_what_came_there_later() -> None:
    """The log was cut back to 9 while the group had committed 50: what came to 9 and behind is as late as its timestamps say."""
    cut_back = Seen(captured_at=1_000, committed=50, end=9)
    assert written_by(1_000 + CLOCK_DIFFERENCE_MS, [cut_back]) == 0
    assert written_by(1_000 + CLOCK_DIFFERENCE_MS + SETTLED_MS, [cut_back]) == 9


@given(log=logs(), moment=st.integers(0, 7), by=st.sampled_from(CutBy), written=WRITTEN, read=st.integers(0, 40))
def test_whoever_had_read_what_was_written_by_the_moment_fits_whatever_its_timestamps_say(
    log: Log, moment: int, by: CutBy, written: int, read: int
) -> None:
    if log.start == 0 and read <= min(written, log.end):
        assert why_no_base(TP, read, 0, log.image, log.cut(moment, by, written).rows) is None


@given(log=logs(), moment=st.integers(0, 7), by=st.sampled_from(CutBy), data=st.data())
def test_where_a_base_had_read_to_is_the_same_place_in_the_cut_log(log: Log, moment: int, by: CutBy, data: st.DataObject) -> None:
    read = data.draw(st.integers(0, log.end + 1))
    captured_at = data.draw(st.integers(0, 7))
    found = log.cut(moment, by)
    why = why_no_base(TP, read, captured_at, log.image, found.rows)
    below = [at for offset, at in log.rows if offset < read]
    fits = log.start <= read <= log.end and all(at <= moment for at in below) and (log.start == 0 or captured_at <= moment)
    assert (why is None) == fits, why
    if why is None:
        by_key = {file.key: file for file in log.image.files()}
        place = translate(TP, read, log.image, 0, lambda file, offset: sum(o < offset for o in offsets_of(log, by_key[file.key])))
        taken = [
            o
            for o, at in log.rows
            if (at <= moment if by is CutBy.TIMESTAMP else found.rows.first_later in (None,) or o < found.rows.first_later)
        ]  # type: ignore[operator]
        assert place == sum(offset < read for offset in taken)


def test_a_changelog_ends_inside_its_last_file_where_a_cut_ends() -> None:
    files = [piece.file for piece in (segment(0, 5, [0, 2, 4]), segment(5, 12, [5, 6, 9])) if piece.file is not None]
    for end, kept, rows in ((6, 2, 4), (7, 2, 5), (9, 2, 5), (5, 1, 3)):
        cut = rows_before(files, end, 77, lambda _file, at: sum(offset < at for offset in (5, 6, 9)))
        assert (len(cut.files), cut.rows.rows, cut.rows.first_later, cut.rows.by) == (kept, rows, end, CutBy.POSITION)


@given(log=logs(), moment=st.integers(0, 7), by=st.sampled_from(CutBy), written=WRITTEN)
@example(log=LATE, moment=2, by=CutBy.TIMESTAMP, written=0)
@example(log=LATE, moment=2, by=CutBy.POSITION, written=0)
@example(log=LATE, moment=7, by=CutBy.POSITION, written=0)
@example(log=LATE, moment=2, by=CutBy.TIMESTAMP, written=3)
def test_what_is_taken_and_the_rest_are_the_whole_log(log: Log, moment: int, by: CutBy, written: int) -> None:
    found = log.cut(moment, by, written)
    left = rest_of(log.image.files(), found.rows)
    wanted = [offset for offset, _ in log.rows if not belongs(log, found.rows, offset)]
    assert left.rows == replace(found.rows, rows=len(wanted), late=0, ahead=0, behind=0, rest=True)
    assert left.rows.rows + found.rows.rows == len(log.rows)
    assert set(files_with(log, wanted)) <= set(left.files)
    assert written or left.files == files_with(log, wanted)


@given(log=logs(), moment=st.integers(0, 7), by=st.sampled_from(CutBy), written=WRITTEN, data=st.data())
@example(log=LATE, moment=2, by=CutBy.TIMESTAMP, written=0, data=None)
def test_whoever_reads_a_log_goes_on_in_the_cut_one_behind_what_was_read_of_it(
    log: Log, moment: int, by: CutBy, written: int, data: st.DataObject | None
) -> None:
    found = log.cut(moment, by, written)

    def count(file: SegmentFile, offset: int, cut: RowCut | None) -> int:
        assert file.first_offset < offset
        assert cut is None or file.max_timestamp > cut.moment, "whole files are not looked into"
        rows = [row for row in log.rows if file.first_offset <= row[0] <= file.last_offset]
        return sum(at < offset and (cut is None or belongs(log, cut, at)) for at, _ in rows)

    for offset in range(log.end + 2) if data is None else [data.draw(st.integers(0, log.end + 1))]:
        before = [at for at, _ in log.rows if at < offset and belongs(log, found.rows, at)]
        assert rank(found, offset, count) == len(before)


def belongs(log: Log, cut: RowCut, offset: int) -> bool:
    if cut.by is CutBy.TIMESTAMP:
        return dict(log.rows)[offset] <= cut.moment or offset < cut.written
    return cut.first_later is None or offset < cut.first_later


def offsets_of(log: Log, file: SegmentFile) -> list[int]:
    return [offset for offset, _ in log.rows if file.first_offset <= offset <= file.last_offset]


def cut_at(first_later: int | None, by: CutBy = CutBy.TIMESTAMP) -> RowCut:
    return RowCut(by=by, moment=100, first_later=first_later, rows=1, late=0)


def test_a_base_has_read_up_to_the_first_later_record_and_not_one_further() -> None:
    archive = image((segment(0, 10, [0, 4, 9]),))
    assert why_no_base(TP, 4, 0, archive, cut_at(4)) is None
    assert why_no_base(TP, 5, 0, archive, cut_at(4)) == "it had read t-0 up to 5, and the record at 4 is later"
    assert why_no_base(TP, 10, 0, archive, cut_at(None)) is None
    assert why_no_base(TP, 11, 0, archive, cut_at(None)) == "it had read t-0 up to 11, and [0, 10) is archived"


def test_records_that_may_be_missing_behind_the_base_rule_it_out() -> None:
    archive = replace(image((segment(0, 4, [0, 3]), segment(6, 10, [6])), end=10), gaps=(Gap(start=4, end=6, reason="too late"),))
    assert "offsets 4..5 of t-0 are missing from the archive (too late)" in str(why_no_base(TP, 3, 0, archive, cut_at(None)))
    assert why_no_base(TP, 6, 50, archive, cut_at(None)) is None, "read before it was lost"
    assert why_no_base(TP, 3, 0, archive, cut_at(4, CutBy.POSITION)) is None, "behind the first later record"
    assert why_no_base(TP, 3, 0, archive, cut_at(4)) is not None, "a late one may be among them"
    assert relevant_gaps(archive, cut_at(4, CutBy.POSITION)) == ()


def test_what_was_read_and_is_not_archived_counts_as_no_later_only_if_the_capture_was_not() -> None:
    archive = image((segment(5, 10, [5, 9]),), start=5, end=10)
    assert why_no_base(TP, 7, 100, archive, cut_at(None)) is None
    assert "begins at 5" in str(why_no_base(TP, 7, 101, archive, cut_at(None)))


@pytest.mark.parametrize(
    ("committed", "reset", "read"),
    [(CommittedOffset(offset=4, metadata="", leader_epoch=None), "latest", 4), (None, "earliest", 2), (None, "latest", 10)],
)
def test_without_a_commit_nothing_was_read_or_all_was_skipped(committed: CommittedOffset | None, reset: str, read: int) -> None:
    assert read_up_to(replace(image((), start=2, end=10), committed=committed), reset) == read


OTHER = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (0, 10, None),
        (3, 10, None),
        (0, 11, "t-0 ends at 11 and is archived up to 10"),
        (0, 9, "t-0 ends at 9 and is archived up to 10"),
    ],
)
def test_a_log_is_covered_from_its_first_offset_to_its_last(start: int, end: int, why: str | None) -> None:
    assert uncovered(TP, image((segment(0, 10, [0, 4, 9]),)), start, end) == why


def test_a_log_that_begins_before_its_archive_is_not_covered() -> None:
    archive = image((segment(5, 10, [5]),), start=5)
    assert uncovered(TP, archive, 4, 10) == "t-0 begins at 4 and is archived from 5"
    assert uncovered(TP, archive, 5, 10) is None
    assert uncovered(TP, image((), end=10), 0, 10) == "t-0 begins at 0 and is archived from 10"
    assert uncovered(TP, image((), start=10, end=10), 10, 10) is None, "nothing is in it"


def test_a_gap_counts_as_long_as_the_log_may_have_its_records() -> None:
    archive = replace(image((segment(0, 4, [0, 3]), segment(6, 10, [6]))), gaps=(Gap(start=4, end=6, reason="too late"),))
    assert uncovered(TP, archive, 0, 10) == "offsets 4..5 of t-0 are missing from the archive (too late)"
    assert uncovered(TP, archive, 5, 10) is not None
    assert uncovered(TP, archive, 6, 10) is None


@given(
    seen=st.dictionaries(st.sampled_from([TP, OTHER]), st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2))), min_size=1),
    then=st.dictionaries(st.sampled_from([TP, OTHER]), st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2))), min_size=1),
)
def test_logs_stood_still_only_when_two_looks_saw_the_same(
    seen: dict[TopicPartition, tuple[int, tuple[int]]], then: dict[TopicPartition, tuple[int, tuple[int]]]
) -> None:
    check_stood_still(seen, seen, 30)
    if seen == then:
        check_stood_still(seen, then, 30)
        return
    moved = [str(tp) for tp in (TP, OTHER) if seen.get(tp) != then.get(tp)]
    with pytest.raises(Refused) as caught:
        check_stood_still(seen, then, 30)
    assert caught.value.facts == {"topics": moved}


def test_having_looked_at_nothing_proves_nothing() -> None:
    with pytest.raises(Refused, match="no log was looked at"):
        check_stood_still({}, {}, 30)


PART = LaterPartition(
    partition=0, files=SegmentFiles.of(()), cut=RowCut(by=CutBy.TIMESTAMP, moment=7, first_later=3, rows=2, late=0, rest=True)
)
ASIDE = QuarantineEntry(
    kind="set-aside",
    at=1,
    run="r",
    savepoint_id="s",
    moment=7,
    topics=(LaterTopic(name="t", partitions=(PART, replace(PART, partition=1))),),
)


def test_a_quarantine_is_what_its_entries_say() -> None:
    with pytest.raises(NotFound, match="no input aside") as caught:
        quarantine_of("x", ())
    assert caught.value.facts == {"restore": "x"}
    aside = quarantine_of("x", (ASIDE,))
    assert (aside.savepoint_id, aside.moment, aside.begun, aside.appended_at) == ("s", 7, None, None)
    assert [topic.rows for topic in aside.topics] == [4]
    begun = replace(ASIDE, kind="begins", at=2, topics=(), ends={TopicPartition("t", 0): 9})
    assert quarantine_of("x", (ASIDE, begun)).begun == {TopicPartition("t", 0): 9}
    done = quarantine_of("x", (ASIDE, begun, replace(begun, kind="appended", at=3, ends=None)))
    assert (done.appended_at, done.topics) == (3, aside.topics)


def test_an_entry_comes_back_from_the_repository_as_it_was() -> None:
    begun = replace(ASIDE, kind="begins", topics=(), ends={TopicPartition("t", 0): 9})
    for entry in (ASIDE, begun):
        assert codec.loads(QuarantineEntry, codec.dumps(entry), where="test") == entry


NONE: frozenset[str] = frozenset()
INPUT = frozenset({"t"})


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"reads": INPUT, "members": ("m",)}, ["group g has members of t (m): stop them"]),
        ({"reads": INPUT, "members": ("m",), "named": True}, ["group g has members of t (m): stop them"]),
        ({"reads": INPUT, "shares": INPUT, "members": ("m",), "named": True}, ["group g has members of t (m): stop them"]),
        ({"committed": (TP,), "members": ("m",), "named": True}, ["group g has members (m): stop them"]),
        ({"committed": (TP,)}, ["group g has read t: name it (groups) to move it too"]),
        ({"shares": INPUT}, ["group g has read t: name it (groups) to move it too"]),
        ({"shares": INPUT, "named": True}, []),
        ({"committed": (TP,), "named": True}, []),
        ({"reads": None, "members": ("m",)}, ["what the members of group g read cannot be told (m): stop them, or name it (groups)"]),
        ({"reads": None, "members": ("m",), "named": True}, []),
        ({"reads": None, "committed": (TP,), "members": ("m",), "named": True}, ["group g has members (m): stop them"]),
        ({"members": ("m",)}, []),
    ],
)
def test_a_live_reader_blocks_and_naming_is_for_those_that_are_stopped_or_cannot_be_seen(group: dict[str, Any], said: list[str]) -> None:
    known = {"name": "g", "reads": NONE, "committed": (), "shares": NONE, "members": (), "named": False, **group}
    assert OtherGroup(**known).problems == said


@pytest.mark.parametrize(("again", "metadata"), [(0, "AgAAAY"), (1, "")])
def test_an_offset_that_goes_back_loses_the_stream_time_that_covers_what_is_read_again(again: int, metadata: str) -> None:
    known = CommittedOffset(offset=7, metadata="AgAAAY", leader_epoch=3)
    assert MovedOffset.of("g", TP, known, offset=7 - again, again=again).wanted.metadata == metadata
