"""The two sources of a document: libyaml, and Python where PyYAML was built without it.

Variables in configuration text.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.config import reading
from streams_recovery.config.reading import VariableError, expand
from streams_recovery.core.project_files import project_files

ENVIRONMENT = {"A": "1", "EMPTY": ""}
Outcome = tuple[object, ...]


def _of(module: ModuleType) -> Callable[[str], Outcome]:
    def outcome(text: str) -> Outcome:
        try:
            document = module.read(text.encode(), ENVIRONMENT)
        except ValueError as error:
            return type(error).__name__, getattr(error, "line", None), getattr(error, "hint", "")
        return document.data, document.lines

    return outcome


@pytest.fixture(scope="module")
def without_libyaml() -> Callable[[str], Outcome]:
    spec = importlib.util.find_spec(reading.__name__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", False)
        patch.setitem(sys.modules, reading.__name__, module)  # dataclasses look there
        spec.loader.exec_module(module)
    return _of(module)


def test_this_python_reads_by_libyaml() -> None:
    assert issubclass(reading._Loader, yaml.CSafeLoader)  # that the other tests here compare two


TEXTS = (
    "a: 1\nb: [x, {c: d, e: }]\nf: |\n  two\n  lines\n",
    "a: ${A}\nb: ${EMPTY}\nc: \"${EMPTY}\"\nd: '${A} and ${A}'\n",
    "a: 2026-01-01\nb: 017\nc: 1:30\nd: yes\ne: ~\nf: 'no'\ng: 1e3\n",
    "a: *x\n",
    "a: &x 1\n",
    "a: !!python/none 1\n",
    "a: 1\na: 2\n",
    "a:\n\tb: 1\n",
    "a: @b\n",
    "a: 1\n---\nb: 2\n",
    "? [a]\n: 1\n",
    "\n\n- a\n",
    "",
    "\ufeffname: x\nother: é\n",
    "[" * 40,
)


@pytest.mark.parametrize("text", TEXTS)
def test_both_sources_make_the_same_of_a_text(text: str, without_libyaml: Callable[[str], Outcome]) -> None:
    assert _of(reading)(text) == without_libyaml(text)


def test_both_sources_make_the_same_of_the_example(without_libyaml: Callable[[str], Outcome]) -> None:
    for path in project_files().configs.glob("*.yaml*"):
        assert _of(reading)(path.read_text()) == without_libyaml(path.read_text())


@given(
    st.dictionaries(
        st.text(max_size=8), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20), st.lists, max_leaves=6)
    )
)
def test_both_sources_make_the_same_of_what_yaml_writes(without_libyaml: Callable[[str], Outcome], data: dict[str, object]) -> None:
    text = yaml.safe_dump(data, allow_unicode=True)
    assert _of(reading)(text) == without_libyaml(text)


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
