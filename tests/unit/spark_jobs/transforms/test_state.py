"""The newest row of each key, found without Spark."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.transforms.state import newest_in
from streams_recovery.segments.schema import SEGMENT_SCHEMA

KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"aa"])
VALUES = st.none() | st.binary(max_size=2)


@settings(deadline=None)  # the first one loads libraries
@given(st.lists(st.tuples(KEYS, VALUES), max_size=30).flatmap(lambda rows: st.permutations(list(enumerate(rows)))))
def test_it_is_the_one_with_the_highest_offset_and_rows_without_a_key_are_none(
    rows: list[tuple[int, tuple[bytes | None, bytes | None]]],
) -> None:
    columns = [{"offset": offset, "timestamp": 7, "timestamp_type": 0, "key": key, "value": value} for offset, (key, value) in rows]
    found = newest_in(pa.RecordBatch.from_pylist(columns, SEGMENT_SCHEMA))
    assert found.schema == SEGMENT_SCHEMA
    told = [(row["offset"], row["key"], row["value"]) for row in found.to_pylist()]
    newest = {key: (offset, key, value) for offset, (key, value) in sorted(rows) if key is not None}
    assert sorted(told) == sorted(newest.values())
