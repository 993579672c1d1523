"""JSON is measured before it is parsed: what costs too much never becomes objects, and what is honest always does."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import bounded_json
from streams_recovery.core.bounded_json import Unusable, document, measure, parsed

# Brackets, quotes, commas and backslashes where they mean nothing.
TRICKY = st.text(st.sampled_from('[]{},:"\\ aé\n'), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY, inner, max_size=3),
    max_leaves=40,
)
MIB = 1 << 20


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def values(value: object, *, of_empty: int = 1) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return 1
    return 1 + sum(values(one, of_empty=of_empty) for one in inner) if inner else of_empty


@given(value=JSON, ascii_only=st.booleans(), indent=st.none() | st.just(2))
def test_what_is_honest_is_parsed(value: object, *, ascii_only: bool, indent: int | None) -> None:
    assert parsed(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == value


@given(value=JSON, piece=st.integers(1, 9))
def test_the_measure_is_the_depth_and_at_least_the_number_of_values(value: object, piece: int) -> None:
    data = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        # Every text is cut somewhere: within a string, too.
        patch.setattr(bounded_json, "_PIECE", piece)
        patch.setattr(bounded_json, "_DEEPEST", depth(value))
        measure(data)
        # An empty list counts as one with a value in it.
        patch.setattr(bounded_json, "_VALUES_FREE", values(value, of_empty=2))
        patch.setattr(bounded_json, "_BYTES_A_VALUE", MIB)
        measure(data)
        patch.setattr(bounded_json, "_VALUES_FREE", values(value) - 1)
        with pytest.raises(Unusable, match="more than"):
            measure(data)
        patch.setattr(bounded_json, "_VALUES_FREE", MIB)
        patch.setattr(bounded_json, "_DEEPEST", depth(value) - 1)
        if depth(value):
            with pytest.raises(Unusable, match="nested deeper"):
                measure(data)


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "more than|nested"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nested deeper than 32"),
        (b"[" + b"[]," * 2_000_000 + b"[]]", "more than"),
        (b"[" + b"{}," * 2_000_000 + b"{}]", "more than"),
        (b"[" + b"1," * 3_000_000 + b"1]", "more than"),
        (b"[" + b'"",' * 2_000_000 + b'""]', "more than"),
    ],
    ids=["deep lists", "deep objects", "lists", "objects", "numbers", "strings"],
)
def test_what_costs_too_much_is_refused_in_little_memory(data: bytes, why: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Unusable, match=why):
            parsed(data)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1,]", b"NaN", b"[Infinity]", b"-Infinity", b"\xff", b'"\\', b'"', b'["\\"]', "[1]".encode("utf-16"), b"[] []"]
)
def test_what_is_no_json_in_utf_8_is_refused(data: bytes) -> None:
    with pytest.raises(Unusable):
        parsed(data)


def test_a_text_is_measured_against_the_limit_that_is_given() -> None:
    assert parsed(b"[1,2]", most_bytes=5) == [1, 2]
    with pytest.raises(Unusable, match="limit is 4"):
        parsed(b"[1,2]", most_bytes=4)


def test_a_document_of_an_application_may_be_long_and_not_bottomless() -> None:
    assert document("[" + "1," * 200_000 + "1]")[-1] == 1
    assert depth(document("[" * 200 + "]" * 200)) == 200
    for text in ("[" * 201 + "]" * 201, '{"a":' * 100_000, "[" * 100_000):
        with pytest.raises(Unusable, match="nested deeper than 200"):
            document(text)
    assert document(json.dumps("[" * 1_000)) == "[" * 1_000
