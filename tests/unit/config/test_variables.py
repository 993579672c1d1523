"""Variables in configuration text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.config.variables import VariableError, expand


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A}", "one"),
        ("x${A}y${B:-z}", "xoneyz"),
        ("${B:-}", ""),
        ("${A:-default}", "one"),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY}", ""),
        ("$${A}", "${A}"),
        ("$A {A} $", "$A {A} $"),
        ("${NESTED}", "${A}"),
        ("${B:-a:-b}", "a:-b"),
    ],
)
def test_variables_are_replaced_once(text: str, expanded: str) -> None:
    assert expand(text, {"A": "one", "EMPTY": "", "NESTED": "${A}"}, most=100) == expanded


@pytest.mark.parametrize("text", ["${MISSING}", "${}", "${1A}", "${A-b}", "${A", "x ${ y", "${A:-${B}}"])
def test_what_cannot_be_replaced_is_an_error(text: str) -> None:
    with pytest.raises(VariableError):
        expand(text, {"A": "one", "B": "two"}, most=100)


@given(st.text())
def test_text_without_variables_stays(text: str) -> None:
    if "${" not in text:
        assert expand(text, {}, most=100) == text
