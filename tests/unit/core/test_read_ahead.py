"""Which ranges are read at once."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.read_ahead import OffsetRange, read_groups

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
