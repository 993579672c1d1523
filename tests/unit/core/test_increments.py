"""How far a run goes, and what it did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.increments import parse_limit, processed, remaining
from streams_recovery.core.model import CommittedOffset, TopicPartition, spaced, spaced_partition

ONE, TWO = TopicPartition("in", 0), TopicPartition("in", 1)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata="", leader_epoch=None)


@pytest.mark.parametrize(("text", "until"), [("ends", None), ("duration:PT30M", 1_801_000), ("duration:P1D", 86_401_000)])
def test_a_limit_is_the_input_or_a_time(text: str, until: int | None) -> None:
    assert parse_limit(text).until(1_000) == until


@pytest.mark.parametrize("text", ["", "end", "duration:", "duration:30m", "duration:PT0S", "PT30M"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        parse_limit(text)


def test_a_partition_is_behind_until_its_end_is_committed() -> None:
    assert remaining({ONE: 5, TWO: 0}, {ONE: at(4), TWO: None}) == {ONE: 1}
    assert remaining({ONE: 5}, {ONE: None}) == {ONE: None}, "never committed is not the same as committed at 0"
    assert remaining({ONE: 5}, {}) == {ONE: None}
    assert remaining({ONE: 5, TWO: 3}, {ONE: at(5), TWO: at(9)}) == {}


@given(st.dictionaries(st.builds(TopicPartition, st.sampled_from(["in", "out"]), st.integers(0, 9)), st.tuples(*[st.integers(0, 99)] * 2)))
def test_what_was_processed_and_what_is_left_make_up_the_whole(found: dict[TopicPartition, tuple[int, int]]) -> None:
    ends = {tp: max(pair) for tp, pair in found.items()}
    after = {tp: min(pair) for tp, pair in found.items()}
    left = remaining(ends, {tp: at(offset) for tp, offset in after.items()})
    done = processed({}, after)
    assert {tp: done.get(tp, 0) + (left.get(tp) or 0) for tp in ends} == ends
    assert all(count > 0 for count in done.values())


def test_a_partition_is_written_and_read_back() -> None:
    assert spaced_partition(spaced(TopicPartition("a-1.b_c", 12))) == TopicPartition("a-1.b_c", 12)
