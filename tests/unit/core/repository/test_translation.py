"""Translated offsets against the plain definition: how many surviving records come before."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Gap, SegmentFile
from streams_recovery.core.repository.translation import translate
from tests.support.examples.savepoints import image, segment

TP = TopicPartition("t", 0)


@st.composite
def logs(draw: st.DrawFn) -> tuple[int, int, list[int], list[int]]:
    """Start, end, surviving offsets and borders of the segments. What does not survive: compacted, aborted, or a marker."""
    start = draw(st.integers(0, 50))
    end = start + draw(st.integers(1, 60))
    rows = sorted(draw(st.sets(st.integers(start, end - 1))))
    borders = sorted({start, end, *draw(st.sets(st.integers(start, end), max_size=5))})
    return start, end, rows, borders


@pytest.mark.fault("F25")
@given(log=logs(), t0=st.integers(0, 9), data=st.data())
def test_the_translation_is_the_number_of_surviving_records_before_it(
    log: tuple[int, int, list[int], list[int]], t0: int, data: st.DataObject
) -> None:
    start, end, rows, borders = log
    pieces = [[o for o in rows if low <= o < high] for low, high in itertools.pairwise(borders)]
    by_key: dict[str, list[int]] = {}
    ranges = []
    for low, high, offsets in zip(borders, borders[1:], pieces, strict=False):
        ranges.append(segment(low, high, offsets))
        by_key[f"orders/segments/t/0/{low:020}-{high:020}-a.parquet"] = offsets

    def rows_below(file: SegmentFile, offset: int) -> int:
        assert file.first_offset < offset <= file.last_offset, "only files with rows on both sides are opened"
        return sum(1 for known in by_key[file.key] if known < offset)

    commit = data.draw(st.integers(start, end))
    expected = t0 + sum(1 for offset in rows if offset < commit)
    assert translate(TP, commit, image(tuple(ranges), start=start, end=end), t0, rows_below) == expected


@pytest.mark.parametrize("commit", [0, 4, 11])
def test_a_commit_outside_the_archive_is_refused_with_both_ends(commit: int) -> None:
    with pytest.raises(Refused) as caught:
        translate(TP, commit, image((segment(5, 10, [5, 9]),), start=5), 0, lambda *_: 0)
    assert caught.value.facts == {"topic": "t", "partition": 0, "committed": commit, "archived_from": 5, "archived_to": 10}


@pytest.mark.parametrize(("gap", "refused"), [((2, 4), False), ((3, 6), True), ((6, 8), True), ((5, 5), False)])
def test_a_commit_before_records_that_were_never_copied_is_refused(gap: tuple[int, int], refused: bool) -> None:
    lossy = replace(image((segment(0, 10, [0, 9]),)), gaps=(Gap(start=gap[0], end=gap[1], reason="deleted by retention"),))
    if not refused:
        assert translate(TP, 5, lossy, 0, lambda *_: 1) == 1
        return
    with pytest.raises(Refused) as caught:
        translate(TP, 5, lossy, 0, lambda *_: 1)
    assert (caught.value.facts["committed"], caught.value.facts["gaps"]) == (5, [(*gap, "deleted by retention")])


@pytest.mark.fault("F33")
def test_an_empty_archive_accepts_its_end_only() -> None:
    empty = image((), start=10, end=10)
    assert translate(TP, 10, empty, 0, lambda *_: 0) == 0
    with pytest.raises(Refused):
        translate(TP, 9, empty, 0, lambda *_: 0)
