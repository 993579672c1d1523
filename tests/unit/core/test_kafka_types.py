"""A partition has one text, in a key, in a value and on a screen."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition

PARTITIONS = st.builds(TopicPartition, st.from_regex(r"\A[a-zA-Z0-9._-]{1,249}\Z"), st.integers(0, 2**31 - 1))


@given(PARTITIONS, PARTITIONS)
def test_every_partition_comes_back_from_its_text_and_no_two_have_one(one: TopicPartition, other: TopicPartition) -> None:
    stored = codec.dumps({one: (one, other)})
    assert json.loads(stored) == {str(one): [str(one), str(other)]}
    assert codec.loads(dict[TopicPartition, tuple[TopicPartition, ...]], stored, where="x") == {one: (one, other)}
    assert (str(one) == str(other)) == (one == other)
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    "text", ["orders", "-1", "orders-01", "orders-+1", "orders-1 ", "orders 1", "orders-\u0661", "a/b-1", "o-2147483648", 7]
)
def test_what_is_no_partition_is_damage_wherever_it_stands(text: object) -> None:
    for kind, plain in ((TopicPartition, text), (dict[TopicPartition, int], {str(text): 1})):
        with pytest.raises(Damaged, match="found 7" if plain == 7 else "is not <topic>-<partition>"):
            codec.decode(kind, plain, where="an entry")
