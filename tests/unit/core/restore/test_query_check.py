"""Answers of an application are held against what can be read of a savepoint, and only against that."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.restore.query_check import QueryCheck, is_answer, judge

SAMPLE = {b"a": b'{"n":1}', b"b": b"two", b"c": b'{"n":3}'}
ANSWERS: dict[str, object] = {"a": {"n": 1}, "b": "two", "c": {"n": 3}, "d": "other"}


def judged(sample: dict[bytes, bytes], answers: dict[str, object], changed: frozenset[bytes] = frozenset()) -> QueryCheck:
    return judge("s", sample, answers, changed)


def test_equal_answers_are_counted() -> None:
    assert judged(SAMPLE, ANSWERS) == QueryCheck(store="s", sampled=3, equal=3, changed=0, unreadable=0, different=())


def test_another_value_and_a_missing_key_are_different() -> None:
    assert judged(SAMPLE, ANSWERS | {"a": {"n": 2}}).different == ("a",)
    assert judged(SAMPLE, {key: value for key, value in ANSWERS.items() if key != "c"}).different == ("c",)


def test_a_key_that_was_written_again_is_left_out() -> None:
    found = judged(SAMPLE, ANSWERS | {"a": {"n": 2}}, frozenset({b"a"}))
    assert (found.equal, found.changed, found.different) == (2, 1, ())


def test_keys_shown_in_another_way_prove_nothing() -> None:
    found = judged(SAMPLE, {f"key {key}": value for key, value in ANSWERS.items()})
    assert (found.equal, found.unreadable, found.different) == (0, 3, ())


def test_an_empty_answer_lacks_every_key_that_nobody_has_written_since() -> None:
    found = judged(SAMPLE | {b"\xff\x00": b"binary"}, {}, frozenset({b"a"}))
    assert found == QueryCheck(store="s", sampled=4, equal=0, changed=1, unreadable=0, different=("b", "c", "0xff00"))


def test_a_store_that_was_emptied_since_may_answer_with_nothing() -> None:
    found = judged(SAMPLE, {}, frozenset(SAMPLE))
    assert (found.equal, found.changed, found.unreadable, found.different) == (0, 3, 0, ())


@pytest.mark.parametrize(
    ("value", "answer", "expected"),
    [
        (b"5", 5, True),
        (b"5", "5", True),
        (b"5", 6, False),
        (b'"x"', "x", True),
        (b"x", "y", False),
        (b"null", None, True),
        (b"x", {"a": 1}, None),
        ((5).to_bytes(8, "big"), 5, None),
        (b"\xff\x00", "x", None),
        (b"", "", None),
        (b'{"a": [1, null]}', {"a": [1, None]}, True),
        (b'{"a": 1}', {"a": 1, "b": 2}, False),
    ],
)
def test_text_and_json_can_be_compared_and_nothing_else(value: bytes, answer: object, *, expected: bool | None) -> None:
    assert is_answer(value, answer) is expected


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_what_was_written_as_json_is_found_again(value: object) -> None:
    assert is_answer(json.dumps(value).encode(), value) is True


@given(
    st.dictionaries(st.binary(max_size=4), st.binary(max_size=4), max_size=15),
    st.dictionaries(st.text("abc", max_size=2), st.text("abc", max_size=2)),
    st.frozensets(st.binary(max_size=4)),
)
def test_every_key_is_counted_once(sample: dict[bytes, bytes], answers: dict[str, object], changed: frozenset[bytes]) -> None:
    found = judged(sample, answers, changed)
    assert found.sampled == found.equal + found.changed + found.unreadable + len(found.different) == len(sample)
