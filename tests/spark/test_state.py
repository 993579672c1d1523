"""A changelog as state, on rows that never saw a broker."""

from __future__ import annotations

import pytest

from spark_jobs.transforms.state import ROWS, compare_states
from streams_recovery.core.jobs.spec import KeysVerified
from streams_recovery.core.kafka_types import TopicPartition

pytestmark = pytest.mark.spark


def row(offset, key, value, *, topic="t", partition=0, timestamp=1, headers=None):
    return (topic, partition, offset, key, value, timestamp, headers)


def compare(spark, archived, loaded, topics=("t",)):
    return compare_states(
        spark.createDataFrame(archived, ROWS), spark.createDataFrame(loaded, ROWS), [TopicPartition(name, 0) for name in topics]
    )


def test_the_latest_row_counts_whatever_the_offsets_and_the_order_of_rows(spark):
    archived = [row(90, b"k", b"new"), row(7, b"k", b"old"), row(8, b"other", b"v")]
    loaded = [row(0, b"other", b"v"), row(1, b"k", b"new")]
    assert compare(spark, archived, loaded) == (KeysVerified(tp=TopicPartition("t", 0), keys_compared=2, keys_different=0, examples=()),)


def test_deleted_keys_are_no_state_and_neither_are_rows_without_a_key(spark):
    archived = [row(0, b"gone", b"v"), row(1, b"gone", None), row(2, None, b"v"), row(3, b"live", b"")]
    loaded = [row(0, b"live", b""), row(1, b"never", None)]
    assert compare(spark, archived, loaded)[0] == KeysVerified(tp=TopicPartition("t", 0), keys_compared=1, keys_different=0, examples=())


@pytest.mark.parametrize(
    "loaded",
    [
        [],
        [row(0, b"k", None)],
        [row(0, b"k", b"w")],
        [row(0, b"k", b"v"), row(1, b"k", b"older")],
        [row(0, b"k", b"v", timestamp=2)],
        [row(0, b"k", b"v", partition=1)],
        [row(0, b"k", b"v", headers=[("h", None)])],
    ],
)
def test_any_difference_is_seen_with_its_key(spark, loaded):
    (store,) = compare(spark, [row(5, b"k", b"v")], loaded)
    assert store.keys_different >= 1
    assert set(store.examples) == {"6b"}


@pytest.mark.fault("F29")
def test_headers_differ_by_order_and_by_null_and_empty(spark):
    pairs = [("a", b""), ("b", None)]
    same = compare(spark, [row(0, b"k", b"v", headers=pairs)], [row(0, b"k", b"v", headers=pairs)])
    assert same[0].keys_different == 0
    for other in ([("b", None), ("a", b"")], [("a", None), ("b", None)], None):
        assert compare(spark, [row(0, b"k", b"v", headers=pairs)], [row(0, b"k", b"v", headers=other)])[0].keys_different == 1


def test_zero_keys_are_told_as_zero(spark):
    assert compare(spark, [], [], ("t", "u")) == tuple(
        KeysVerified(tp=TopicPartition(topic, 0), keys_compared=0, keys_different=0, examples=()) for topic in ("t", "u")
    )
    assert compare(spark, [], [], ()) == ()


def test_topics_are_kept_apart_and_examples_are_bounded(spark):
    archived = [row(number, b"%03d" % number, b"v") for number in range(50)] + [row(0, b"k", b"v", topic="u")]
    found = compare(spark, archived, [row(0, b"k", b"v", topic="u")], ("u", "t"))
    assert [(store.tp.topic, store.keys_compared, store.keys_different) for store in found] == [("u", 1, 0), ("t", 50, 50)]
    assert found[1].examples == tuple((b"%03d" % number).hex() for number in range(20))
