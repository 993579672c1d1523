"""Whether a savepoint is enough when the cluster has lost everything.

Translated offsets against the plain definition: how many surviving records come before.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Gap, Manifest, PartitionImage, SegmentFile, TopicImage
from streams_recovery.core.repository.survival import lost_with_cluster, translate
from tests.support.examples.savepoints import image, manifest_of, segment, topic

WHOLE = image((segment(0, 10, [1, 4, 8]),))
LATE = image((segment(3, 10, [4, 8]),), start=3)
HOLED = replace(image((segment(0, 4, [1]), segment(6, 10, [8]))), gaps=(Gap(start=4, end=6, reason="gone"),))
EMPTY = image((), end=0)
STATE = topic((WHOLE,), name="orders-s-changelog")
NOT_ARCHIVED = image(())


def read(role: TopicRole, *partitions: PartitionImage, archived: bool = True) -> TopicImage:
    return replace(topic(partitions, name=str(role), role=role), archived=archived)


def full(*topics: TopicImage, **changes: object) -> Manifest:
    return replace(manifest_of(STATE, *topics), **changes)  # type: ignore[arg-type]


def minimal(*topics: TopicImage) -> Manifest:
    return manifest_of(replace(STATE, archived=False, partitions=(NOT_ARCHIVED,)), *topics)


INPUT, GLOBAL, OUTPUT = (read(role, WHOLE) for role in (TopicRole.INPUT, TopicRole.GLOBAL, TopicRole.OUTPUT))


@pytest.mark.parametrize(
    "manifest",
    [
        full(INPUT, GLOBAL, OUTPUT),
        full(INPUT, read(TopicRole.OUTPUT, NOT_ARCHIVED, archived=False)),
        full(read(TopicRole.INPUT, LATE)),
        full(INPUT, consistency=Consistency.AHEAD),
        full(read(TopicRole.INPUT, replace(EMPTY, committed=None))),
        minimal(INPUT, GLOBAL),
        minimal(read(TopicRole.INPUT, WHOLE, replace(EMPTY, partition=1, committed=None)), read(TopicRole.GLOBAL, LATE)),
    ],
    ids=["all", "without outputs", "input begins late", "ahead", "empty input", "minimal", "minimal, global begins late"],
)
def test_a_savepoint_with_all_that_is_read_survives(manifest: Manifest) -> None:
    assert lost_with_cluster(manifest) == ()
    assert not lost_with_cluster(manifest)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (full(read(TopicRole.INPUT, NOT_ARCHIVED, archived=False), GLOBAL), "the records of input are not archived"),
        (full(INPUT, read(TopicRole.GLOBAL, NOT_ARCHIVED, archived=False)), "the records of global are not archived"),
        (minimal(read(TopicRole.INPUT, NOT_ARCHIVED, archived=False)), "the records of input are not archived"),
        (full(INPUT, consistency=Consistency.DAMAGED), "parts of the application were gone"),
        (
            full(read(TopicRole.INPUT, replace(LATE, committed=replace(WHOLE.committed, offset=2)))),
            "committed offset 2 of input-0 lies outside",
        ),  # type: ignore[type-var]
        (
            full(read(TopicRole.INPUT, replace(HOLED, committed=replace(WHOLE.committed, offset=4)))),
            "behind its committed offset 4 are missing",
        ),  # type: ignore[type-var]
        (
            replace(full(INPUT), topics=(replace(STATE, partitions=(HOLED,)), INPUT)),
            "offsets 4..5 of orders-s-changelog-0 are missing: gone",
        ),
        (minimal(read(TopicRole.INPUT, LATE)), "input-0 is archived from offset 3 on, and without state all of it is needed"),
        (minimal(read(TopicRole.INPUT, HOLED)), "input-0 is archived from offset 6 on, and without state all of it is needed"),
    ],
)
def test_what_would_be_missing_is_said(manifest: Manifest, said: str) -> None:
    [reason] = lost_with_cluster(manifest)
    assert said in reason
    assert lost_with_cluster(manifest)


def test_a_hole_below_the_committed_offset_of_a_full_one_harms_nothing() -> None:
    behind = replace(HOLED, committed=replace(WHOLE.committed, offset=7))  # type: ignore[type-var]
    assert not lost_with_cluster(full(read(TopicRole.INPUT, behind)))


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
