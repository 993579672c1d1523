"""What an interrupted load may have left, judged by ids and ends alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.load_progress import LoadAction, LoadProgress, TopicState, next_action, topic_state

offsets = st.integers(0, 20)


@given(start=offsets, more=offsets, rows=offsets)
def test_only_a_log_from_0_on_with_no_more_than_its_rows_can_be_a_beginning(start: int, more: int, rows: int) -> None:
    standing = LoadProgress(tp=TopicPartition("t", 0), start=start, end=start + more, rows=rows)
    if start == 0 and more <= rows:
        assert standing.present == more
    else:
        assert standing.present is None


def test_a_topic_is_ours_by_its_id_and_a_stranger_s_records_are_never_ours() -> None:
    assert topic_state(None, ["a"], 0) is TopicState.MISSING
    assert topic_state("a", ["b", "a"], 7) is TopicState.OURS
    assert topic_state("c", ["b", "a"], 7) is TopicState.STRANGER_FULL
    assert topic_state("c", [], 0) is TopicState.STRANGER_EMPTY


@pytest.mark.fault("F20")
@given(kind=st.sampled_from(TopicState), records=offsets, differs=st.booleans(), others_write=st.booleans())
def test_records_that_somebody_else_may_have_written_are_never_deleted(
    kind: TopicState, records: int, differs: bool, others_write: bool
) -> None:
    what = next_action(kind, records=records, differs=differs, others_write=others_write)
    if kind is TopicState.STRANGER_FULL or (records and differs and others_write):
        assert what is LoadAction.REFUSE
    elif differs or kind is not TopicState.OURS:
        assert what is LoadAction.BEGIN_AGAIN
    else:
        assert what is LoadAction.GO_ON
