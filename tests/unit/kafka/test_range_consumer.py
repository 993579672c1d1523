"""What a consumer may fetch ahead goes by the size of a range, in few steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.kafka.range_consumer import size_class


@given(st.integers(0, 10**9))
def test_a_class_is_enough_for_the_range_and_less_than_four_times_it(offsets):
    size = size_class(offsets)
    assert size in (64, 256, 1_024, 4_096)
    assert size >= min(offsets, 4_096)
    assert size == 64 or size < 4 * offsets
