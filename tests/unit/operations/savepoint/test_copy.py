"""What a job brought back is what was planned, to the offset, or it is not used; and a log that is another one is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import RangeCopied, RangeLost, RangeToCopy
from streams_recovery.core.kafka_types import Evidence, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.operations.savepoint.begin import grown, other_topics, truncated
from streams_recovery.operations.savepoint.copy import _check_stored, check_against_plan
from streams_recovery.operations.savepoint.values import CopyPlan, DraftTopic
from tests.support.examples.savepoints import cut
from tests.support.repository.golden import SECOND, OpenGolden

STATE, INPUT = TopicPartition("state", 0), TopicPartition("in", 0)


def wanted(tp: TopicPartition, start: int, end: int) -> RangeToCopy:
    return RangeToCopy(tp=tp, start=start, end=end, size_hint=1, may_lose=tp is INPUT)


def copied(tp: TopicPartition, start: int, end: int, log_start: int = 0) -> RangeCopied:
    piece = CopiedRange(start=start, end=end, file=None)
    return RangeCopied(tp=tp, copied=piece, fetched=0, log_start_after=log_start, worker="w")


def lost(tp: TopicPartition, start: int, end: int) -> RangeLost:
    return RangeLost(tp=tp, start=start, end=end)


PLANNED = (wanted(STATE, 0, 5), wanted(STATE, 5, 10), wanted(INPUT, 2, 9))
WHOLE = (copied(STATE, 0, 5), copied(STATE, 5, 10), copied(INPUT, 2, 9))


@pytest.mark.parametrize(
    ("pieces", "holes"),
    [
        (WHOLE, ()),
        (WHOLE[::-1], ()),
        (WHOLE[:2], (lost(INPUT, 2, 9),)),
        ((*WHOLE[:2], copied(INPUT, 2, 4), copied(INPUT, 6, 9, log_start=6)), (lost(INPUT, 4, 6),)),
        ((*WHOLE[:2], copied(INPUT, 2, 9, log_start=5)), ()),  # deleted after it was read
    ],
)
def test_what_was_planned_is_taken(pieces: tuple[RangeCopied, ...], holes: tuple[RangeLost, ...]) -> None:
    check_against_plan(PLANNED, pieces, holes)


@pytest.mark.parametrize(
    ("pieces", "holes", "named"),
    [
        (WHOLE[:2], (), "'in'"),
        (WHOLE[1:], (), "'state'"),
        ((*WHOLE, WHOLE[0]), (), "'state'"),
        ((*WHOLE, copied(TopicPartition("other", 0), 0, 1)), (), "'other'"),
        ((copied(STATE, 0, 4), *WHOLE[1:]), (), "'state'"),
        ((copied(STATE, 0, 3), copied(STATE, 3, 5), *WHOLE[1:]), (), "'state'"),
        ((copied(STATE, 0, 3), *WHOLE[1:]), (lost(STATE, 3, 5),), "'state'"),
        (WHOLE[1:], (lost(STATE, 0, 5),), "'state'"),
        ((*WHOLE[:2], copied(INPUT, 2, 5)), (lost(INPUT, 6, 9),), "'in'"),
        ((*WHOLE[:2], copied(INPUT, 2, 6)), (lost(INPUT, 5, 9),), "'in'"),
        ((copied(STATE, 0, 5, log_start=1), *WHOLE[1:]), (), "state-0 starts at 1"),
    ],
)
def test_anything_else_is_damaged(pieces: tuple[RangeCopied, ...], holes: tuple[RangeLost, ...], named: str) -> None:
    with pytest.raises(Damaged, match=named):
        check_against_plan(PLANNED, pieces, holes)


@given(bounds=st.lists(st.integers(2, 9), unique=True, max_size=5).map(sorted), gone=st.lists(st.booleans(), min_size=6, max_size=6))
def test_pieces_and_holes_of_an_input_are_the_range_however_it_was_cut(bounds: list[int], gone: list[bool]) -> None:
    edges = sorted({2, 9, *bounds})
    tiles = list(zip(edges, edges[1:], gone, strict=False))
    pieces = tuple(copied(INPUT, start, end) for start, end, missing in tiles if not missing)
    holes = tuple(lost(INPUT, start, end) for start, end, missing in tiles if missing)
    check_against_plan(PLANNED[2:], pieces, holes)
    if pieces:
        with pytest.raises(Damaged):
            check_against_plan(PLANNED[2:], pieces[1:], holes)


def test_a_file_that_is_not_there_is_damage_and_the_next_savepoint_copies_it(golden: OpenGolden) -> None:
    recovery = golden("missing-segment")
    (topic,) = (topic for topic in recovery.savepoints.read(SECOND).topics if topic.name == "golden-totals-changelog")
    files = [piece.file for image in topic.partitions for piece in image.ranges if piece.file is not None]
    with pytest.raises(Damaged) as caught:
        _check_stored(recovery, CopyPlan(parent_id=None, partitions=(), begun_anew=()), files)
    assert str(caught.value.facts["key"]).startswith("golden/segments/")
    assert caught.value.commands == ("streams-recovery backup golden",)


TOPIC = DraftTopic(
    name="state",
    role=TopicRole.CHANGELOG,
    topic_id="a",
    replication_factor=1,
    config={},
    store=None,
    archived=True,
    evidence=Evidence.STORE,
    partitions=(cut(end=10, epoch=2, topic="state"),),
)
SAME = TopicDescription(name="state", topic_id="a", partitions=1, replication_factor=1, config={}, leader_epochs=(2,))


@pytest.mark.fault("F21")
def test_another_topic_under_the_same_name_is_seen() -> None:
    assert other_topics([TOPIC], {"state": SAME}) == []
    assert other_topics([TOPIC], {}) == ["topic state (id a) was deleted"]
    assert other_topics([TOPIC], {"state": replace(SAME, topic_id="b")}) == ["topic state was created again: topic id a became b"]


def test_partitions_that_came_later_are_told() -> None:
    assert grown([TOPIC], {"state": SAME}) == ()
    (told,) = grown([TOPIC], {"state": replace(SAME, partitions=2)})
    assert "it has 2, 1 are in this savepoint" in told


@given(end=st.none() | st.integers(0, 30))
def test_a_log_that_was_cut_back_below_the_cut_is_seen(end: int | None) -> None:
    found = truncated([TOPIC], {TopicPartition("state", 0): end})
    assert bool(found) == (end is not None and end < 10)
