"""When two values say the same, and when they do not."""

from __future__ import annotations

import json
import math
import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.outputs.values import RecordForm, Tolerance, Windowed, identity, near, same_value, split_window
from streams_recovery.core.state.table import Format, ValueFormat, decoded, encoded

numbers = st.integers() | st.floats(allow_nan=False)
documents = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


def same(kind: Format, one: bytes | None, other: bytes | None, *ignore: str, absolute: float = 0.0, relative: float = 0.0) -> bool:
    form = RecordForm(value=ValueFormat(format=kind), ignore=ignore, tolerance=Tolerance(absolute=absolute, relative=relative))
    return same_value(one, other, form, partial(decoded, kind))


def same_json(one: object, other: object, *ignore: str, **tolerance: float) -> bool:
    return same(Format.JSON, json.dumps(one).encode(), json.dumps(other, indent=1).encode(), *ignore, **tolerance)


@given(documents)
def test_a_document_is_the_same_however_it_is_written(document):
    assert same_json(document, document)


@given(documents, documents)
def test_order_of_the_sides_does_not_matter(one, other):
    assert same_json(one, other) == same_json(other, one)


@given(documents, documents)
def test_without_tolerance_documents_are_the_same_when_python_says_so_of_values_and_types(one, other):
    def typed(value):
        if isinstance(value, dict):
            return {name: typed(part) for name, part in value.items()}
        if isinstance(value, list):
            return [typed(part) for part in value]
        return ("number", value) if isinstance(value, (int, float)) and not isinstance(value, bool) else (type(value).__name__, value)

    assert same_json(one, other) == (typed(one) == typed(other))


@given(numbers, numbers, st.floats(0, 1e9), st.floats(0, 2))
def test_what_a_tolerance_allows_a_larger_one_allows_too(one, other, absolute, relative):
    if near(one, other, Tolerance(absolute=absolute, relative=relative)):
        assert near(one, other, Tolerance(absolute=absolute * 2, relative=relative * 2))
        assert near(other, one, Tolerance(absolute=absolute, relative=relative))


def test_the_limit_itself_is_allowed_and_nothing_beyond_it():
    assert near(1.0, 1.5, Tolerance(absolute=0.5))
    assert not near(1.0, 1.5, Tolerance(absolute=0.49))
    assert near(1000, 990, Tolerance(relative=0.0100001))
    assert not near(1000, 990, Tolerance(relative=0.009))
    assert near(10**400, 10**400 + 1, Tolerance(absolute=1)), "no number is too large"
    assert not near(2**53, 2**53 + 1, Tolerance()), "not as floats, to which both would be one"
    assert near(math.nan, math.nan, Tolerance())
    assert not near(math.nan, 1.0, Tolerance(absolute=1e300))
    assert not near(math.inf, 1e308, Tolerance(relative=1.0))
    assert not near(math.inf, -math.inf, Tolerance(relative=1.0))
    assert near(math.inf, math.inf, Tolerance())


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_a_tolerance_is_a_number_that_is_not_negative(bad):
    with pytest.raises(ConfigInvalid, match="tolerance"):
        Tolerance(absolute=bad)
    with pytest.raises(ConfigInvalid, match="tolerance"):
        Tolerance(relative=bad)


def test_numbers_of_kafkas_own_serialisers():
    packed = partial(struct.pack, ">d")
    assert same(Format.DOUBLE, packed(1.0), packed(1.0009), absolute=0.001)
    assert not same(Format.DOUBLE, packed(1.0), packed(1.0011), absolute=0.001)
    assert same(Format.DOUBLE, packed(0.0), packed(-0.0))
    assert same(Format.DOUBLE, packed(0.0), packed(0.1), absolute=0.1)
    assert same(Format.LONG, encoded(Format.LONG, 7), encoded(Format.LONG, 8), absolute=1)
    assert not same(Format.LONG, encoded(Format.LONG, 7), encoded(Format.LONG, 9), absolute=1)
    # Whatever the tolerance, bytes and texts are the same or not.
    assert not same(Format.BYTES, b"\x01", b"\x02", absolute=10)
    assert not same(Format.STRING, b"1", b"2", absolute=10)


def test_numbers_in_documents_within_a_tolerance():
    assert same_json({"sum": 10.0, "list": [1, {"deep": 2}]}, {"sum": 10.0004, "list": [1, {"deep": 1.9996}]}, absolute=0.001)
    assert not same_json({"sum": 10.0, "n": 1}, {"sum": 10.0004, "n": 1.01}, absolute=0.001)
    assert same_json({"n": 1}, {"n": 1.0})
    assert not same_json({"yes": True}, {"yes": 1}), "a truth is no number"
    assert not same_json({"n": 1}, {"n": "1"}, absolute=1)
    assert not same_json([1], [1, 1], absolute=1)
    assert not same_json({"n": 0}, {}, absolute=1)


def test_numbers_in_documents_are_as_exact_as_they_are_written():
    for one, other in (
        (b"12345678901234567.01", b"12345678901234567.02"),
        (b"1e400", b"2e400"),
        (b"1e400", b"Infinity"),
        (b"1e-400", b"0"),
        (b"1e999999999", b"2e999999999"),
        (b"0." + b"1" * 2_000, b"0." + b"1" * 1_999 + b"2"),
    ):
        for text in (one, b'{"n": [%s]}' % one):
            other_text = text.replace(one, other)
            assert not same(Format.JSON, text, other_text)
            assert same(Format.JSON, text, b" " + text)
            form = RecordForm(value=ValueFormat(format=Format.JSON))
            names = [identity(each, form, partial(decoded, Format.JSON)) for each in (text, b" " + text, other_text)]
            assert names[0] == names[1] != names[2]
    assert same(Format.JSON, b"12345678901234567.01", b"12345678901234567.02", absolute=0.01)
    assert same(Format.JSON, b"1.03", b"1.00", absolute=0.03)
    assert not same(Format.JSON, b"1.0300000001", b"1.00", absolute=0.03)
    assert same(Format.JSON, b"1.50", b"15e-1")
    assert same(Format.JSON, b"1e2", b"100")
    assert not same(Format.JSON, b'"1.5"', b"1.5")


def test_a_document_in_which_a_name_is_there_twice_is_compared_as_bytes():
    twice, once = b'{"a": {"n": 1, "n": 2}}', b'{"a": {"n": 2}}'
    assert same(Format.JSON, twice, twice)
    assert not same(Format.JSON, twice, once)
    form = RecordForm(value=ValueFormat(format=Format.JSON))
    assert identity(twice, form, partial(decoded, Format.JSON)) != identity(once, form, partial(decoded, Format.JSON))


def test_tombstones_are_values():
    for kind in Format:
        assert same(kind, None, None)
        assert not same(kind, None, b"")
    assert not same(Format.JSON, None, b"null")
    assert not same(Format.JSON, b"0", None, absolute=1)


def test_ignored_fields_are_left_out_wherever_their_path_leads():
    one = {"at": 1, "meta": {"host": "a", "kind": "k"}, "lines": [{"at": 1, "n": 2}]}
    other = {"meta": {"host": "b", "kind": "k"}, "lines": [{"at": 3, "n": 2}]}
    assert same_json(one, other, "at", "meta.host", "lines.at")
    assert not same_json(one, other, "at", "lines.at")
    assert not same_json(one, other, "at", "meta.host"), "a name is not looked for in what is inside"
    assert not same_json(one, {**other, "meta": {"host": "b"}}, "at", "meta.host", "lines.at")
    assert same_json(one, {"lines": one["lines"]}, "at", "meta")


def test_bytes_that_do_not_have_the_format_are_compared_as_bytes():
    assert same(Format.JSON, b"{", b"{", absolute=1)
    assert not same(Format.JSON, b"{", b"{}", absolute=1)
    assert not same(Format.JSON, b"\xff", b"1")
    assert not same(Format.JSON, b"[" * 10_000, b"[" * 10_001), "nor does one that is nested without end stop anything"
    assert not same(Format.JSON, b"1" * 5_000, b"1" * 5_001), "nor one that Python would not read"
    assert not same(Format.LONG, b"\0" * 8, b"\0" * 7)


@given(documents, documents)
def test_records_without_a_key_are_told_apart_as_their_documents_are(one, other):
    form = RecordForm(value=ValueFormat(format=Format.JSON))
    names = [identity(json.dumps(each).encode(), form, partial(decoded, Format.JSON)) for each in (one, other)]
    assert (names[0] == names[1]) == same_json(one, other)


def test_a_record_without_a_key_has_an_identity_whatever_its_value():
    form = RecordForm(value=ValueFormat(format=Format.JSON), ignore=("at", "in.at"))
    name = partial(identity, form=form, decode=partial(decoded, Format.JSON))
    assert name(b'{"at": 1, "n": 1, "in": [{"at": 3}]}') == name(b'{"n":1.0,"at":2,"in":[{}]}')
    assert len({name(None), name(b""), name(b"null"), name(b"{"), name(b"{}")}) == 5
    plain = RecordForm()
    assert identity(b"1", plain, partial(decoded, Format.BYTES)) != identity(b"1.0", plain, partial(decoded, Format.BYTES))


def test_windows_are_what_kafka_streams_writes_behind_the_key():
    start, end = 1_764_158_400_000, 1_764_158_460_000
    assert split_window(Windowed.TIME, b"key" + struct.pack(">q", start)) == (b"key", "2025-11-26 12:00:00 UTC")
    session = b"key" + struct.pack(">qq", end, start)
    assert split_window(Windowed.SESSION, session) == (b"key", "2025-11-26 12:00:00 UTC to 2025-11-26 12:01:00 UTC")
    assert split_window(Windowed.NONE, session) == (session, "")
    assert split_window(Windowed.TIME, b"short") == (b"short", "")
    assert split_window(Windowed.SESSION, b"twelve bytes") == (b"twelve bytes", "")
    assert split_window(Windowed.TIME, b"k" + b"\x7f" * 8)[1].endswith("ms"), "whatever the bytes are"
