"""Logs cut at a moment, against the plain definition: which records are no later, and which come before the first that is."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.translation import translate
from streams_recovery.core.repository.manifest import Gap, SegmentFile
from streams_recovery.core.restore.point_in_time import (
    CutBy,
    RowCut,
    rank,
    read_up_to,
    relevant_gaps,
    rest_of,
    why_no_base,
)
from tests.support.examples.event_times import Log, logs
from tests.support.examples.savepoints import image, segment

TP = TopicPartition("t", 0)


LATE = Log(0, 6, (((0, 1), (1, 5), (2, 2)), ((3, 2),), ((4, 6), (5, 3))), (0, 3, 4, 6))


@given(log=logs(), moment=st.integers(0, 7))
@example(log=LATE, moment=0)
@example(log=LATE, moment=2)
@example(log=LATE, moment=7)
def test_by_timestamp_every_record_that_is_no_later_is_taken(log: Log, moment: int) -> None:
    found = log.cut(moment, CutBy.TIMESTAMP)
    wanted = [offset for offset, at in log.rows if at <= moment]
    first = next((offset for offset, at in log.rows if at > moment), None)
    assert found.rows == RowCut(
        by=CutBy.TIMESTAMP,
        moment=moment,
        first_later=first,
        rows=len(wanted),
        late=sum(first is not None and offset > first for offset in wanted),
    )
    assert found.files == tuple(
        file for file in log.image.files() if any(file.first_offset <= offset <= file.last_offset for offset in wanted)
    )


@given(log=logs(), moment=st.integers(0, 7))
@example(log=LATE, moment=2)
def test_by_position_every_record_before_the_first_later_one_is_taken(log: Log, moment: int) -> None:
    found = log.cut(moment, CutBy.POSITION)
    wanted = [offset for offset, _ in itertools.takewhile(lambda row: row[1] <= moment, log.rows)]
    first = next((offset for offset, at in log.rows if at > moment), None)
    assert found.rows == RowCut(by=CutBy.POSITION, moment=moment, first_later=first, rows=len(wanted), late=0)
    assert found.files == tuple(
        file for file in log.image.files() if any(file.first_offset <= offset <= file.last_offset for offset in wanted)
    )


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


@given(log=logs(), moment=st.integers(0, 7), by=st.sampled_from(CutBy))
@example(log=LATE, moment=2, by=CutBy.TIMESTAMP)
@example(log=LATE, moment=2, by=CutBy.POSITION)
@example(log=LATE, moment=7, by=CutBy.POSITION)
def test_what_is_taken_and_the_rest_are_the_whole_log(log: Log, moment: int, by: CutBy) -> None:
    found = log.cut(moment, by)
    left = rest_of(log.image.files(), found.rows)
    wanted = [offset for offset, _ in log.rows if not belongs(log, found.rows, offset)]
    assert left.rows == replace(found.rows, rows=len(wanted), late=0, rest=True)
    assert left.rows.rows + found.rows.rows == len(log.rows)
    assert left.files == tuple(
        file for file in log.image.files() if any(file.first_offset <= offset <= file.last_offset for offset in wanted)
    )


@given(log=logs(), moment=st.integers(0, 7), by=st.sampled_from(CutBy), data=st.data())
@example(log=LATE, moment=2, by=CutBy.TIMESTAMP, data=None)
def test_whoever_reads_a_log_goes_on_in_the_cut_one_behind_what_was_read_of_it(
    log: Log, moment: int, by: CutBy, data: st.DataObject | None
) -> None:
    found = log.cut(moment, by)

    def count(file: SegmentFile, offset: int, no_later: int | None) -> int:
        assert file.first_offset < offset
        assert no_later is None or file.max_timestamp > no_later, "whole files are not looked into"
        rows = [row for row in log.rows if file.first_offset <= row[0] <= file.last_offset]
        return sum(at < offset and (no_later is None or stamp <= no_later) for at, stamp in rows)

    for offset in range(log.end + 2) if data is None else [data.draw(st.integers(0, log.end + 1))]:
        before = [at for at, _ in log.rows if at < offset and belongs(log, found.rows, at)]
        assert rank(found, offset, count) == len(before)


def belongs(log: Log, cut: RowCut, offset: int) -> bool:
    if cut.by is CutBy.TIMESTAMP:
        return dict(log.rows)[offset] <= cut.moment
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
