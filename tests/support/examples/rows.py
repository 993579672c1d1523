"""Rows of logs as a job has them, and as a test writes them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from streams_recovery.segments.schema import SEGMENT_SCHEMA, RowDigest, header_array

# Every way in which null and empty, order and repetition can be confused.
SHAPES = [
    (1_700_000_000_000, None, b"v", [("", b"x"), ("ü", b"y")]),
    (1, None, None, None),
    (2**62, b"", b"", [("a", None), ("a", b""), ("b", b"\xff")]),
    (5, b"k", None, None),
    (4, b"k", b"", [("z", b"1"), ("a", b"2"), ("z", b"1")]),
    (3, b"k" * 3000, b"v" * 300_000, None),
]


def batch_of(rows, start=0):
    """Rows of (timestamp, key, value, headers) with offsets from ``start`` on."""
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    return pa.record_batch(
        [
            pa.array(range(start, start + len(rows)), pa.int64()),
            pa.array(columns[0], pa.int64()),
            pa.array([0] * len(rows), pa.int8()),
            pa.array(columns[1], pa.binary()),
            pa.array(columns[2], pa.binary()),
            header_array(columns[3]),
        ],
        schema=SEGMENT_SCHEMA,
    )


def rows_in(batches):
    """The inverse of ``batch_of``."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [
        (row["timestamp"], row["key"], row["value"], row["headers"] and [(each["key"], each["value"]) for each in row["headers"]])
        for row in rows
    ]


def digest_of(rows):
    """As the tasks of a job make it."""
    digest = RowDigest()
    digest.update(batch_of(rows))
    return digest.hexdigest()


# Any key or value, any header, any row, and a few of them.
maybe_bytes = st.none() | st.binary(max_size=20)
header = st.tuples(st.text(st.characters(blacklist_categories=["Cs"]), max_size=5), maybe_bytes)
row = st.tuples(st.integers(-(2**63), 2**63 - 1), maybe_bytes, maybe_bytes, st.none() | st.lists(header, max_size=3))
rows_of = st.lists(row, max_size=12)
