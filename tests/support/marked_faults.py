"""Which test proves what docs/reliability.md promises: the marks on the tests, and the page.

``python -m tests.support.marked_faults`` writes the tests that carry a fault's mark below that fault on the page.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.project import PROJECT

TESTS = PROJECT / "tests"
PAGE = PROJECT / "docs" / "reliability.md"
FAULTS = tuple(f"F{number}" for number in range(1, 70))

# A fault's heading, and what stands below it up to the next heading.
_SECTION = re.compile(r"^### (F\d+) · [^\n]+\n(.*?)(?=^#{2,3} |\Z)", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"^- `(tests/[^`]+::[^`]+)`$", re.MULTILINE)


def marked(tests: Path = TESTS) -> dict[str, list[str]]:
    """The tests that are marked with each fault, as pytest names them. Read from their source: nothing is imported."""
    found = defaultdict[str, list[str]](list)
    for path in sorted(tests.rglob("test_*.py")):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef):
                for fault in _faults(function):
                    found[fault].append(f"{path.relative_to(tests.parent)}::{function.name}")
    return dict(found)


def _faults(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.fault":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def sections(page: str) -> list[tuple[str, str]]:
    """Each fault of the page with the text below its heading, in the page's order."""
    return [(found[1], found[2]) for found in _SECTION.finditer(page)]


def problems(page: str, marks: Mapping[str, list[str]]) -> list[str]:
    """What is wrong with the page, by the marks. Empty when nothing is."""
    found = sections(page)
    named = [fault for fault, _ in found]
    told = [f"{fault} is on the page {named.count(fault)} times" for fault in FAULTS if named.count(fault) != 1]
    told += [f"{fault} is not one of the faults" for fault in sorted({*named, *marks} - {*FAULTS})]
    for fault, text in found:
        tests = _TEST.findall(text)
        if not tests:
            told.append(f"{fault} has no test")
        told += [f"{fault} names {test}, which does not carry its mark" for test in tests if test not in marks.get(fault, ())]
        told += [f"{test} is marked with {fault} and not on the page" for test in marks.get(fault, ()) if test not in tests]
    return told


def filled(page: str, marks: Mapping[str, list[str]]) -> str:
    """The page with the marked tests, and no others, below each fault; its words stay."""

    def section(found: re.Match[str]) -> str:
        heading, fault, text = found[0].splitlines()[0], found[1], found[2]
        words = _TEST.sub("", text).strip()
        tests = [f"- `{test}`" for test in marks.get(fault, ())]
        return "\n".join([heading, "", words, "", *tests, "", ""])

    return _SECTION.sub(section, page).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), marked()))
