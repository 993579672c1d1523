"""Rows that are placed anew, column by column, against one at a time."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.transforms import rescale_rows
from spark_jobs.transforms.rescale_rows import NOWHERE, in_stream_time, places, timed
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import KeyForm
from streams_recovery.core.rescale.moved import TopicToPlace
from streams_recovery.core.rescale.placement import RescaledTopic, partition_of
from streams_recovery.kafka.native.library import SWITCH
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array

FORMS = [form for form in KeyForm if form is not KeyForm.OWN]
TOPIC = TopicToPlace(topic=RescaledTopic(name="t", old=4, new=12), kind=None, partitions=(), primary=None)
SUBSCRIPTIONS = st.builds(
    lambda foreign, primary: struct.pack(">i", len(foreign)) + foreign + primary, st.binary(max_size=9), st.binary(max_size=9)
)


def batch(rows: list[tuple[int, int, bytes | None]]) -> pa.RecordBatch:
    """Rows of offset, timestamp and key."""
    count = len(rows)
    offsets, stamps, keys = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [pa.array(offsets, pa.int64()), pa.array(stamps, pa.int64()), pa.array([0] * count, pa.int8())]
    columns += [pa.array(keys, pa.binary()), pa.nulls(count, pa.binary()), header_array([None] * count)]
    return pa.record_batch(columns, schema=SEGMENT_SCHEMA)


@given(
    st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=1_020, max_size=1_030) | SUBSCRIPTIONS, max_size=30),
    st.integers(1, 40),
    st.integers(0, 5),
)
def test_keys_are_placed_as_one_at_a_time(keys: list[bytes | None], partitions: int, skipped: int) -> None:
    rows = batch([(offset, 1, key) for offset, key in enumerate(keys)]).slice(skipped)
    for form, switch in itertools.product(FORMS, ("on", "off")):
        wanted = [NOWHERE if key is None or (found := partition_of(form, key, partitions)) is None else found for key in keys[skipped:]]
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv(SWITCH, switch)
            assert places(TOPIC, form, rows, partitions).tolist() == wanted


@given(st.lists(st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=4), min_size=1, max_size=4))
def test_no_row_of_a_log_comes_later_in_stream_time_than_it_was(logs: list[list[list[int]]]) -> None:
    sources, lateness = [], {}
    for number, batches in enumerate(logs):
        made, stream_time, offset = [], -1, 0
        for times in batches:
            made.append(batch([(offset + at, time, b"k") for at, time in enumerate(times)]))
            for time in times:
                stream_time = max(stream_time, time)
                lateness[number, offset] = stream_time - time
                offset += 1
        sources.append(iter(made))
    stream_time, seen = -1, []
    for rows, numbers in in_stream_time(sources):
        for offset, time, number in zip(
            rows.column("offset").to_pylist(), rows.column("timestamp").to_pylist(), numbers.tolist(), strict=True
        ):
            stream_time = max(stream_time, time)
            assert stream_time - time == lateness[number, offset]
            seen.append((number, offset))
    assert len(seen) == len(lateness)
    for number in range(len(logs)):
        mine = [offset for one, offset in seen if one == number]
        assert mine == sorted(mine)


class _Found:
    def load(self):  # as importlib.metadata has it
        return lambda key, value, partitions: (len(key) + (value is None)) % partitions


def test_a_partitioner_of_ones_own_is_asked_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    own = TopicToPlace(topic=RescaledTopic(name="t", old=4, new=12, own="by-length"), kind=None, partitions=(), primary=None)
    with pytest.raises(ConfigInvalid, match="0 packages have a partitioner 'by-length'"):
        places(own, KeyForm.OWN, batch([(0, 1, b"abc")]), 4)
    monkeypatch.setattr(rescale_rows, "entry_points", lambda **wanted: [_Found()] if wanted["name"] == "by-length" else [])
    assert np.array_equal(places(own, KeyForm.OWN, batch([(0, 1, b"abc"), (1, 1, None)]), 3), [1, NOWHERE])


MOMENT = 1_764_500_000_000


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ([b"key" + struct.pack(">q", MOMENT), None, struct.pack(">qq", MOMENT + 5, MOMENT)], True),
        ([b"key" + struct.pack(">q", MOMENT), b"a whole key"], False),
        ([b"key" + struct.pack(">q", MOMENT), b"short"], False),
        ([struct.pack(">q", 77)], False),
        ([b"\xff" * 20], False),
        ([b""], False),
    ],
)
def test_keys_that_end_in_a_moment_may_be_windowed(keys: list[bytes | None], found: bool) -> None:
    rows = batch([(offset, 1, key) for offset, key in enumerate([b"skipped", *keys])]).slice(1)
    assert timed(rows) is found


@pytest.mark.parametrize("behind", [b"", struct.pack(">q", MOMENT)])
@pytest.mark.parametrize("length", range(10))
def test_a_key_alone_is_looked_at_whatever_its_length_is(length: int, behind: bytes) -> None:
    assert timed(batch([(0, 1, b"k" * length + behind)])) == bool(behind)
