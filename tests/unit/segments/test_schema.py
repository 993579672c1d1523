from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged
from streams_recovery.segments.schema import (
    SEGMENT_SCHEMA,
    RowDigest,
    check_schema,
    header_array,
    header_lists,
    largest_record,
    payload_bytes,
    record_digest,
)
from tests.support.examples.rows import batch_of, header, row, rows_of


def digest_of(*batches):
    digest = RowDigest()
    for batch in batches:
        digest.update(batch)
    return digest.hexdigest()


def normal(rows):
    return [(stamp, key, value, headers or None) for stamp, key, value, headers in rows]


@settings(deadline=None)  # the first call pays for imports
@given(rows_of, st.integers(0, 12))
def test_the_digest_does_not_depend_on_how_rows_are_cut_into_batches(rows, at):
    batch = batch_of(rows)
    assert digest_of(batch) == digest_of(batch.slice(0, at), batch.slice(at))


@settings(deadline=None)  # the first call pays for imports
@given(rows_of, rows_of)
def test_digests_are_equal_exactly_when_the_rows_are(left, right):
    assert (digest_of(batch_of(left)) == digest_of(batch_of(right))) == (normal(left) == normal(right))


@settings(deadline=None)  # the first call pays for imports
@given(st.lists(row, min_size=1, max_size=6), st.data())
def test_every_single_change_of_a_row_changes_the_digest(rows, data):
    at = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw(row.filter(lambda candidate: normal([candidate]) != normal([rows[at]])))
    assert digest_of(batch_of(rows)) != digest_of(batch_of([*rows[:at], other, *rows[at + 1 :]]))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([(1, None, b"v", None)], [(1, b"", b"v", None)]),
        ([(1, b"k", None, None)], [(1, b"k", b"", None)]),
        ([(1, b"ab", b"c", None)], [(1, b"a", b"bc", None)]),
        ([(1, b"a", b"", None), (1, b"b", b"", None)], [(1, b"b", b"", None), (1, b"a", b"", None)]),
        ([(1, b"k", b"v", [("h", None)])], [(1, b"k", b"v", [("h", b"")])]),
        ([(1, b"k", b"v", [("a", b"1"), ("a", b"2")])], [(1, b"k", b"v", [("a", b"2"), ("a", b"1")])]),
        ([(1, b"k", b"v", [("a", None)]), (1, b"k", b"v", None)], [(1, b"k", b"v", None), (1, b"k", b"v", [("a", None)])]),
        ([(1, b"k", b"v", None)], [(2, b"k", b"v", None)]),
        ([(1, b"k", b"v", None)], []),
    ],
)
def test_what_looks_alike_is_told_apart(left, right):
    assert digest_of(batch_of(left)) != digest_of(batch_of(right))


def test_bytes_hidden_under_a_null_do_not_count():
    starts, data = pa.py_buffer(b"\0\0\0\0\3\0\0\0\4\0\0\0"), pa.py_buffer(b"xyzv")
    hidden = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\2"), starts, data])
    plain = batch_of([(1, None, b"v", None), (1, b"v", b"v", None)])
    assert digest_of(plain) == digest_of(plain.set_column(3, SEGMENT_SCHEMA.field("key"), hidden))


@pytest.mark.fault("F29")
@settings(deadline=None)  # the first call pays for imports
@given(st.lists(st.none() | st.lists(header, max_size=3), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_headers_come_back_as_they_were_also_from_a_slice(headers, start, length):
    column = header_array(headers).slice(start, length)
    assert header_lists(column) == [each or None for each in headers][start : start + length]


def test_a_batch_of_nothing_is_like_no_batch():
    assert digest_of(batch_of([])) == digest_of()


def test_payload_counts_keys_and_values():
    assert payload_bytes(batch_of([(1, b"ab", None, [("h", b"long value")]), (1, None, b"cde", None)])) == 5
    assert payload_bytes(batch_of([])) == 0


@given(st.lists(row, max_size=9), st.integers(0, 9))
def test_the_largest_record_counts_key_value_and_headers_also_of_a_slice(rows, start):
    def size(one):
        _, key, value, headers = one
        return len(key or b"") + len(value or b"") + sum(len(name.encode()) + len(what or b"") for name, what in headers or [])

    assert largest_record(batch_of(rows).slice(start)) == max(map(size, rows[start:]), default=0)


def test_a_file_with_other_columns_is_not_a_segment():
    with pytest.raises(Damaged, match=r"a\.parquet"):
        check_schema(pa.schema([("offset", pa.int64())]), where="a.parquet")
    check_schema(SEGMENT_SCHEMA, where="a.parquet")


@given(row, row)
def test_digests_of_single_records_are_equal_exactly_when_the_records_are(left, right):
    assert record_digest(*left) == record_digest(*left)
    assert (record_digest(*left) == record_digest(*right)) == (normal([left]) == normal([right]))


@pytest.mark.parametrize(
    "other",
    [(1, None, b"", None), (1, b"", b"", None), (1, None, None, [("h", None)]), (1, None, None, [("h", b"")]), (2, None, None, None)],
)
def test_null_and_empty_differ_in_a_single_record(other):
    assert len({record_digest(*one) for one in (other, (1, None, None, None), (1, None, None, []))}) == 2


def test_headers_of_a_single_record_are_in_order():
    both = [("a", b"1"), ("b", b"2")]
    assert record_digest(1, b"k", b"v", both) != record_digest(1, b"k", b"v", both[::-1])


@pytest.mark.parametrize("column", ["offset", "timestamp_type"])
def test_where_a_row_stands_and_who_set_its_time_count_only_for_a_placed_digest(column):
    batch = batch_of([(1, b"k", b"v", None), (2, b"k", b"v", None)])
    at = batch.schema.get_field_index(column)
    other = batch.set_column(at, batch.schema.field(at), pc.add(batch.column(at), pa.scalar(1, batch.schema.field(at).type)))
    assert digest_of(batch) == digest_of(other)
    placed = [RowDigest(placed=True) for _ in range(3)]
    for digest, one in zip(placed, (batch, other, batch), strict=True):
        digest.update(one)
    assert placed[0].hexdigest() == placed[2].hexdigest() != placed[1].hexdigest()
