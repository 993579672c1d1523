"""Which ranges are read at once."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.work import OffsetRange, bundled, packed, read_groups


@given(sizes=st.lists(st.integers(0, 1000), max_size=30), bins=st.integers(1, 10))
def test_every_piece_of_work_is_packed_once_and_evenly(sizes: list[int], bins: int) -> None:
    groups = packed(sizes, bins)
    assert sorted(at for group in groups for at in group) == list(range(len(sizes)))
    assert len(groups) == min(bins, len(sizes))
    sums = [sum(sizes[at] for at in group) for group in groups]
    assert not sums or max(sums) - min(sums) <= max(sizes)
    assert all([sizes[at] for at in group] == sorted((sizes[at] for at in group), reverse=True) for group in groups)


def test_a_big_piece_is_left_alone_with_a_group() -> None:
    assert packed([1, 10, 1, 1, 2], 2) == [[1], [4, 0, 2, 3]]


@given(records=st.lists(st.integers(0, 100), max_size=40), least=st.integers(1, 8))
def test_small_pieces_share_tasks_and_big_ones_have_their_own(records: list[int], least: int) -> None:
    groups = bundled(records, least, worth=50)
    assert sorted(at for group in groups for at in group) == list(range(len(records)))
    assert all(len(group) == 1 for group in groups if max(records[at] for at in group) >= 50)
    assert len(groups) >= min(least, len(records))
    sums = [sum(records[at] for at in group) for group in groups]
    assert sums == sorted(sums, reverse=True)
    # No task beyond the least is started for less than half of what one is worth, the one with the rest aside.
    assert sum(1 for size in sums if size < 25) <= least


def test_what_nobody_has_to_wait_for_is_done_by_few() -> None:
    assert bundled([], 4) == []
    assert len(bundled([0] * 100, 4)) == 4
    assert len(bundled([10_000] * 3 + [1] * 100, 4)) == 4
    assert len(bundled([9_999] * 10, 2)) == 10


offsets = st.integers(0, 30)
ranges = st.lists(
    st.builds(lambda at, start, size: OffsetRange(TopicPartition("t", at), start, start + size), st.integers(0, 9), offsets, offsets),
    max_size=40,
)


@given(ranges, st.integers(1, 25), st.integers(1, 6), st.integers(1, 60))
def test_groups_have_the_small_ranges_in_order_and_keep_every_limit(given_ranges, small, most_ranges, most_offsets):
    groups = read_groups(given_ranges, small=small, most_ranges=most_ranges, most_offsets=most_offsets)
    assert list(itertools.chain(*groups)) == [each for each in given_ranges if 0 < each.end - each.start <= small]
    for group in groups:
        assert group
        assert len({each.tp for each in group}) == len(group) <= most_ranges
        assert len(group) == 1 or sum(each.end - each.start for each in group) <= most_offsets


@given(ranges)
def test_a_group_ends_only_where_a_limit_says_so(given_ranges):
    limits = {"small": 20, "most_ranges": 5, "most_offsets": 50}
    groups = read_groups(given_ranges, **limits)
    for group, following in itertools.pairwise(groups):
        first = following[0]
        full = len(group) == limits["most_ranges"]
        too_many = sum(each.end - each.start for each in [*group, first]) > limits["most_offsets"]
        assert full or too_many or first.tp in {each.tp for each in group}


def test_nothing_is_read_of_ranges_that_run_backwards():
    assert read_groups([OffsetRange(TopicPartition("t", 0), 5, 3)]) == []
