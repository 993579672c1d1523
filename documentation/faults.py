"""Which test proves what docs/reliability.md promises: the marks on the tests. The site has their names below each fault; the page in docs has none."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1] / "tests"
PAGE: Final = "reliability.md"
FAULTS: Final = tuple(f"F{number}" for number in range(1, 117))
# A fault's heading, and what stands below it up to the next heading.
_SECTION: Final = re.compile(r"^### (F\d+) · [^\n]+\n(.*?)(?=^#{2,3} |\Z)", re.MULTILINE | re.DOTALL)


def marked(tests: Path = TESTS, mark: str = "fault") -> dict[str, list[str]]:
    """The tests that are marked with each argument of ``mark``, as pytest names them. Read from their source: nothing is imported."""
    found = defaultdict[str, list[str]](list)
    for path in sorted(tests.rglob("test_*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef):
                for name in arguments(function.decorator_list, mark):
                    found[name].append(f"{path.relative_to(tests.parent)}::{function.name}")
    return dict(found)


def arguments(marks: Iterable[ast.expr], mark: str) -> Iterator[str]:
    """What the marks of one name were given."""
    for one in marks:
        if isinstance(one, ast.Call) and ast.unparse(one.func) == f"pytest.mark.{mark}":
            yield from (ast.literal_eval(argument) for argument in one.args)


def problems(page: str, marks: Mapping[str, list[str]]) -> list[str]:
    """What is wrong with the page, by the marks. Empty when nothing is."""
    named = [found[1] for found in _SECTION.finditer(page)]
    told = [f"{fault} is on the page {named.count(fault)} times" for fault in FAULTS if named.count(fault) != 1]
    told += [f"{fault} is not one of the faults" for fault in sorted({*named, *marks} - {*FAULTS})]
    return told + [f"{fault} has no test" for fault in dict.fromkeys(named) if not marks.get(fault)]


def filled(page: str, marks: Mapping[str, list[str]]) -> str:
    """The page with the marked tests below each fault."""

    def section(found: re.Match[str]) -> str:
        tests = "".join(f"- `{test}`\n" for test in marks.get(found[1], ()))
        return f"{found[0].rstrip()}\n\n{tests}\n"

    return _SECTION.sub(section, page)
