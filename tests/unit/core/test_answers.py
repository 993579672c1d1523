"""An application's bytes that can be read, and whether an answer is that."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.answers import is_answer


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
